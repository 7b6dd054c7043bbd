/* Includes presets.txt, from the same folder, in the program as
 * es_presets_text. */
        .section .rodata
        .globl  es_presets_text
        .hidden es_presets_text
es_presets_text:
        .incbin "presets.txt"
        .byte   0

        .section .note.GNU-stack, "", @progbits
