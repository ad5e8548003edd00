/* A header that breaks nothing; a comment may say strcpy() and asm. */
struct good;
