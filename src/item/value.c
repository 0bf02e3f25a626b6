/* Questions about single values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "item/value.h"

bool value_has_control(struct sv text)
{
	const unsigned char *u = (const unsigned char *)text.p;

	for (size_t i = 0; i < text.n; i++) {
		if (u[i] < 0x20 || u[i] == 0x7f)
			return true;
		/* U+0080-U+009F are C2 80 to C2 9F. */
		if (u[i] == 0xc2 && i + 1 < text.n && u[i + 1] < 0xa0)
			return true;
	}
	return false;
}

int value_sign(struct sv number)
{
	for (size_t i = 0; i < number.n; i++) {
		if (number.p[i] == 'e' || number.p[i] == 'E')
			break;
		if (number.p[i] >= '1' && number.p[i] <= '9')
			return number.p[0] == '-' ? -1 : 1;
	}
	return 0;
}

bool value_is_digits(struct sv text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
	return text.n == 1 || (text.n > 1 && text.p[0] != '0');
}

/* Exactly `digits` digits off the front of *s, as a number from min to max. */
static bool take_number(struct sv *s, size_t digits, int min, int max, int *v_r)
{
	int v = 0;

	if (s->n < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		v = v * 10 + (s->p[i] - '0');
	}
	*s = sv_tail(*s, digits);
	*v_r = v;
	return v >= min && v <= max;
}

static bool take_byte(struct sv *s, const char *any_of)
{
	if (s->n == 0 || s->p[0] == '\0' || !strchr(any_of, s->p[0]))
		return false;
	*s = sv_tail(*s, 1);
	return true;
}

static int days_of(int year, int month)
{
	static const int DAYS[] = {31, 28, 31, 30, 31, 30,
				   31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return DAYS[month - 1] + (month == 2 && leap);
}

static bool take_date(struct sv *s)
{
	int year, month, day;

	return take_number(s, 4, 0, 9999, &year) && take_byte(s, "-") &&
	       take_number(s, 2, 1, 12, &month) && take_byte(s, "-") &&
	       take_number(s, 2, 1, days_of(year, month), &day);
}

static bool take_fraction(struct sv *s)
{
	size_t n = 0;

	if (!take_byte(s, "."))
		return true;
	while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
		n++;
	*s = sv_tail(*s, n);
	return n > 0;
}

/* In minutes east of UTC. */
static bool take_offset(struct sv *s, int *minutes_r)
{
	bool west = s->n && s->p[0] == '-';
	int hours, minutes;

	*minutes_r = 0;
	if (take_byte(s, "Zz"))
		return true;
	if (!take_byte(s, "+-") || !take_number(s, 2, 0, 23, &hours) ||
	    !take_byte(s, ":") || !take_number(s, 2, 0, 59, &minutes))
		return false;
	*minutes_r = (hours * 60 + minutes) * (west ? -1 : 1);
	return true;
}

bool value_is_time(struct sv text)
{
	enum { DAY = 24 * 60 };
	int hour, minute, second, offset;

	if (!take_date(&text) || !take_byte(&text, "Tt") ||
	    !take_number(&text, 2, 0, 23, &hour) || !take_byte(&text, ":") ||
	    !take_number(&text, 2, 0, 59, &minute) || !take_byte(&text, ":") ||
	    !take_number(&text, 2, 0, 60, &second) || !take_fraction(&text) ||
	    !take_offset(&text, &offset) || text.n)
		return false;
	return second < 60 ||
	       (hour * 60 + minute - offset + DAY) % DAY == DAY - 1;
}
