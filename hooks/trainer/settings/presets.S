/* The table of presets as bytes of the program: presets.txt beside this file. */
        .section .rodata
        .globl  es_presets_text
        .hidden es_presets_text
es_presets_text:
        .incbin "presets.txt"
        .byte   0

        .section .note.GNU-stack, "", @progbits
