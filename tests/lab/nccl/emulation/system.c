/* Preloaded into a rank: calls into the system that NCCL makes, and only those, fail as asked.
 *
 *   FAKESYS_FAULT    socket:3=24,pthread_create:1=11    from the 3rd socket() of NCCL's on EMFILE; what is known: CALLS below
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

extern void *__libc_malloc(size_t);
enum { PTHREAD_CREATE, SOCKET, BIND, CONNECT, ACCEPT, RECV, SEND, MKSTEMP, FALLOCATE, MMAP, MALLOC, GETIFADDRS, CALLS };
static const char *const names[CALLS] = { "pthread_create", "socket", "bind", "connect", "accept", "recv", "send", "mkstemp", "fallocate",
                                          "mmap", "malloc", "getifaddrs" };
static struct { long at, calls; int error; } faults[CALLS];
static uintptr_t first, last; /* where NCCL is */

__attribute__((constructor)) static void read_faults(void)
{
    char name[32];
    long at;
    int error;
    for (const char *v = getenv("FAKESYS_FAULT"); v && *v; v = strchr(v, ',') ? strchr(v, ',') + 1 : NULL)
        for (int i = 0; i < CALLS; i++)
            if (sscanf(v, "%31[^:]:%ld=%d", name, &at, &error) == 3 && !strcmp(name, names[i])) { faults[i].at = at; faults[i].error = error; }
}
static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size; (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libnccl.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD) continue;
        if (!first || start < first) first = start;
        if (start + part->p_memsz > last) last = start + part->p_memsz;
    }
    return 1;
}
static int fault(int call, void *caller) /* the error that this call shall give, or 0 */
{
    if (!faults[call].error) return 0;
    if (!last) dl_iterate_phdr(look, NULL);
    if ((uintptr_t)caller < first || (uintptr_t)caller >= last) return 0;
    return __atomic_add_fetch(&faults[call].calls, 1, __ATOMIC_RELAXED) >= faults[call].at ? faults[call].error : 0;
}
#define REAL(name) ({ static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); real; })
#define FAILS(call, value) do { int e_ = fault(call, __builtin_return_address(0)); if (e_) { errno = e_; return value; } } while (0)

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{ int e = fault(PTHREAD_CREATE, __builtin_return_address(0)); return e ? e : REAL(pthread_create)(t, a, run, arg); }
int socket(int domain, int type, int protocol) { FAILS(SOCKET, -1); return REAL(socket)(domain, type, protocol); }
int bind(int fd, const struct sockaddr *a, socklen_t n) { FAILS(BIND, -1); return REAL(bind)(fd, a, n); }
int connect(int fd, const struct sockaddr *a, socklen_t n) { FAILS(CONNECT, -1); return REAL(connect)(fd, a, n); }
int accept(int fd, struct sockaddr *a, socklen_t *n) { FAILS(ACCEPT, -1); return REAL(accept)(fd, a, n); }
ssize_t recv(int fd, void *p, size_t n, int flags) { FAILS(RECV, -1); return REAL(recv)(fd, p, n, flags); }
ssize_t send(int fd, const void *p, size_t n, int flags) { FAILS(SEND, -1); return REAL(send)(fd, p, n, flags); }
int mkstemp(char *path) { FAILS(MKSTEMP, -1); return REAL(mkstemp)(path); }
int fallocate(int fd, int mode, off_t at, off_t n) { FAILS(FALLOCATE, -1); return REAL(fallocate)(fd, mode, at, n); }
int posix_fallocate(int fd, off_t at, off_t n)
{ int e = fault(FALLOCATE, __builtin_return_address(0)); return e ? e : REAL(posix_fallocate)(fd, at, n); }
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t from) { FAILS(MMAP, MAP_FAILED); return REAL(mmap)(at, n, prot, flags, fd, from); }
void *malloc(size_t n) { FAILS(MALLOC, NULL); return __libc_malloc(n); }
int getifaddrs(struct ifaddrs **list) { FAILS(GETIFADDRS, -1); return REAL(getifaddrs)(list); }
