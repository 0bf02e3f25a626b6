/* Functions that are easy to misuse: naming one does not compile.
 *
 * Instead: buf (base/buf.h) for building strings, text_*() (base/text.h) for
 * numbers, clock_*() (base/clock.h) for time, sv (base/sv.h) for splitting.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_BANNED_H
#define WAYBILL_BANNED_H

#include <ctype.h>
#include <time.h>

#define BANNED(name) sorry_##name##_is_banned

#undef strcpy
#define strcpy(to, from) BANNED(strcpy)
#undef strcat
#define strcat(to, from) BANNED(strcat)
#undef strncpy
#define strncpy(to, from, n) BANNED(strncpy)
#undef strncat
#define strncat(to, from, n) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(s, d) BANNED(strtok)
#undef strtok_r
#define strtok_r(s, d, p) BANNED(strtok_r)
#undef atoi
#define atoi(s) BANNED(atoi)
#undef atol
#define atol(s) BANNED(atol)
#undef atoll
#define atoll(s) BANNED(atoll)
#undef atof
#define atof(s) BANNED(atof)
#undef gmtime
#define gmtime(t) BANNED(gmtime)
#undef localtime
#define localtime(t) BANNED(localtime)
#undef asctime
#define asctime(t) BANNED(asctime)
#undef ctime
#define ctime(t) BANNED(ctime)
#undef tmpnam
#define tmpnam(s) BANNED(tmpnam)
#undef mktemp
#define mktemp(s) BANNED(mktemp)
#undef alloca
#define alloca(n) BANNED(alloca)
#undef rand
#define rand() BANNED(rand)

#endif
