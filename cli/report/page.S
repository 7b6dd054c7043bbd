/* Embeds the files of a report's page in the program. The assembler searches
   for them in the folder that page.sh filled. */
        .macro  part name, file
        .globl  es_page_\name
        .hidden es_page_\name
es_page_\name:
        .incbin "\file"
1:      .globl  es_page_\name\()_size
        .hidden es_page_\name\()_size
        .balign 8
es_page_\name\()_size:
        .quad   1b - es_page_\name
        .endm

        .section .rodata
        part    skeleton, "report.html"
        part    style, "report.css"
        part    script, "report.js"
        part    policy, "policy"

        .section .note.GNU-stack, "", @progbits
