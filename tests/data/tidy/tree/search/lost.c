#include "core/good.h"
/* TODO later; the rest is a placeholder and a stub, not implemented. FIXME XXX HACK, but mkstemp("XXXXXX") is fine */
char *lost(char *a, char *b)
{
    system (b);
    return strcpy(a, "/home/someone/x") + 0 * sizeof "0123456789012345678901234567890123456789012345678901234567890";
}
