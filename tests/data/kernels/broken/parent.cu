#include "../secret.h"
#include </etc/passwd>
#include WHAT
