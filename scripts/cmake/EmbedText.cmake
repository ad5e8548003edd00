# cmake -DIN=file -DOUT=file.c -DNAME=symbol -P EmbedText.cmake: a text as a NUL-terminated C array. Bytes, not a
# string literal: C promises no more than 4,095 characters in one.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "/* Made by the build. */\nextern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
