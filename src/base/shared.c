/* Memory that processes of the host share through a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *map(int fd, size_t bytes)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* NULL without a failure: there is none, or one of another layout. */
static void *attach(const char *path, size_t bytes,
		    const uint8_t layout[DIGEST_BYTES])
{
	void *p = NULL;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size == (off_t)bytes)
		p = map(fd, bytes);
	close(fd);
	if (p && memcmp(p, layout, DIGEST_BYTES) != 0) {
		munmap(p, bytes);
		p = NULL;
	}
	return p;
}

/* Made beside its name and moved there, so that no other process ever maps
 * half of it. */
static bool create(const char *path, size_t bytes,
		   const uint8_t layout[DIGEST_BYTES], struct fail *f)
{
	char aside[PATH_MAX];
	bool ok;
	int fd;

	snprintf(aside, sizeof(aside), "%s.%d", path, (int)getpid());
	fd = open(aside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_errno(f, FAIL_SYSTEM, "create", aside);
	ok = ftruncate(fd, (off_t)bytes) == 0 &&
	     pwrite(fd, layout, DIGEST_BYTES, 0) == DIGEST_BYTES &&
	     rename(aside, path) == 0;
	if (!ok)
		fail_errno(f, FAIL_SYSTEM, "write", aside);
	close(fd);
	return ok;
}

static void *attach_or_create(const char *path, size_t bytes,
			      const uint8_t layout[DIGEST_BYTES],
			      struct fail *f)
{
	void *p = attach(path, bytes, layout);

	if (!p && !create(path, bytes, layout, f))
		return NULL;
	if (!p)
		p = attach(path, bytes, layout);
	if (!p)
		fail_errno(f, FAIL_SYSTEM, "map", path);
	return p;
}

/* Of several processes that start together one makes the file and the others
 * use it: who looks and who makes holds the lock. */
static void *map_locked(const char *path, size_t bytes,
			const uint8_t layout[DIGEST_BYTES], struct fail *f)
{
	char name[PATH_MAX];
	void *p = NULL;
	int fd;

	snprintf(name, sizeof(name), "%s.lock", path);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) != 0)
		fail_errno(f, FAIL_SYSTEM, "lock", name);
	else
		p = attach_or_create(path, bytes, layout, f);
	if (fd >= 0)
		close(fd);
	return p;
}

void *shared_map(const char *path, size_t bytes,
		 const uint8_t layout[DIGEST_BYTES], struct fail *f)
{
	void *p;

	if (*path)
		return map_locked(path, bytes, layout, f);
	p = map(-1, bytes);
	if (!p)
		bug("no memory to share: %zu bytes", bytes);
	memcpy(p, layout, DIGEST_BYTES);
	return p;
}
