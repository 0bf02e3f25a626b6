/* waybill doctor: whether the parents of this host share what they must.
 *
 * A waybill-fcgi parent without the shared files works, but alone: two of
 * them admit twice a partner's rate. Only more than one makes that wrong, so
 * they are counted, in /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "main/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

static const char PROGRAM[] = "waybill-fcgi";

/* The first `size - 1` bytes of a file of a process; "" if it has ended. */
static size_t proc_read(const char *pid, const char *name, char *to,
			size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	to[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, to, size - 1);
	close(fd);
	to[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static bool is_ours(const char *pid)
{
	char comm[32];

	proc_read(pid, "comm", comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	return strcmp(comm, PROGRAM) == 0;
}

/* A worker is the child of one of its own name. The name in stat is in
 * parentheses, followed by the state and the parent's id. */
static bool is_worker(const char *pid)
{
	char stat[512], *end, parent[24] = "";

	proc_read(pid, "stat", stat, sizeof(stat));
	end = strrchr(stat, ')');
	if (end && strlen(end) > 4)
		snprintf(parent, sizeof(parent), "%.*s",
			 (int)strspn(end + 4, "0123456789"), end + 4);
	return *parent && is_ours(parent);
}

/* Whether its command line names another settings file than ours. One that
 * names none, or not the whole path, is counted. */
static bool of_another(const char *pid, const char *conf)
{
	char words[4096], mine[PATH_MAX];
	size_t n = proc_read(pid, "cmdline", words, sizeof(words));
	const char *word = words, *end = words + n;

	if (!conf || !realpath(conf, mine))
		return false;
	for (; word < end; word += strlen(word) + 1) {
		const char *path = NULL;
		char real[PATH_MAX];

		if (strncmp(word, "--conf=", 7) == 0)
			path = word + 7;
		else if (strcmp(word, "--conf") == 0)
			path = word + strlen(word) + 1;
		if (path && path < end && *path == '/')
			return !realpath(path, real) || strcmp(real, mine) != 0;
	}
	return false;
}

static unsigned count_parents(const char *conf)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	unsigned count = 0;

	while (proc && (entry = readdir(proc))) {
		const char *pid = entry->d_name;

		count += isdigit((unsigned char)*pid) && is_ours(pid) &&
			 !is_worker(pid) && !of_another(pid, conf);
	}
	if (proc)
		closedir(proc);
	return count;
}

enum doctor_verdict doctor_parents(struct patient *p, struct fail *f)
{
	const struct conf *c = &p->cli->conf;
	const struct {
		const char *name, *path, *harm;
	} shared[] = {
		{"limit_file", c->limit_file,
		 "each admits the whole rate of a partner"},
		{"inflight_file", c->inflight_file,
		 "requests that wait for one another may take all workers"},
		{"metrics_file", c->metrics_file,
		 "/metrics shows the counters of one process"},
	};
	unsigned count = count_parents(p->cli->conf_path);

	snprintf(p->found, sizeof(p->found), "%u parents", count);
	for (size_t i = 0; count > 1 && i < ARRAY_LEN(shared); i++)
		if (!*shared[i].path)
			return doctor_says(fail_set(
				f, FAIL_CONF,
				"%u waybill-fcgi parents run here and %s is "
				"not set, so %s: set it to a file in /run or "
				"on a local disk, the same for all of them, "
				"and restart them",
				count, shared[i].name, shared[i].harm));
	return DOCTOR_OK;
}
