/* RDMA between processes of the lab's nodes. FAKEIB_WIRE is a folder that all of them see; without it no byte moves.
 *
 * A table in it tells which process has a queue pair; each process listens on a UNIX socket there, which network
 * namespaces do not part. A thread for each peer writes what comes into the memory it is meant for, as an adapter does
 * without the program. A peer that is gone, or whose port is down, is given up after FAKEIB_RETRY seconds (default 2).
 */
#define _GNU_SOURCE
#include "wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 65536
#define PROCESSES 1024
#define FIRST_PAIR 0x100
struct table { uint32_t pairs, processes, owner[PAIRS], down[PROCESSES]; };
struct header { uint32_t pair, has_imm, imm, spare; uint64_t address, bytes; };
struct link { int fd, dead; pthread_mutex_t lock; };

static struct table *table;
static struct qp *mine[PAIRS];
static struct link links[PROCESSES];
static uint32_t self;
static int port_down;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER, naming = PTHREAD_MUTEX_INITIALIZER;

double wire_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
double wire_patience(void) { const char *v = getenv("FAKEIB_RETRY"); return v && *v ? atof(v) : 2; }

void wire_complete(struct ibv_cq *cq, struct ibv_wc wc, double due)
{
    struct cq *c = (struct cq *)cq;
    pthread_mutex_lock(&c->lock);
    c->due[c->tail % RING] = due;
    c->done[c->tail++ % RING] = wc;
    pthread_mutex_unlock(&c->lock);
}

void wire_match(struct qp *q) /* with its lock held */
{
    while (q->first != q->last && q->oldest != q->newest) {
        struct arrival a = q->arrived[q->oldest++ % RING];
        wire_complete(q->qp.recv_cq, (struct ibv_wc){ .wr_id = q->posted[q->first++ % RING], .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
            .byte_len = a.bytes, .imm_data = a.imm, .wc_flags = IBV_WC_WITH_IMM, .qp_num = q->qp.qp_num }, 0);
    }
}
static void arrive(uint32_t pair, uint32_t imm, uint32_t bytes)
{
    pthread_mutex_lock(&naming);
    struct qp *q = mine[pair % PAIRS];
    if (q) {
        pthread_mutex_lock(&q->lock);
        q->arrived[q->newest++ % RING] = (struct arrival){ imm, bytes };
        wire_match(q);
        pthread_mutex_unlock(&q->lock);
    }
    pthread_mutex_unlock(&naming);
}

static int take(int fd, void *to, size_t n) /* whether all of it came; memory that is not there swallows it */
{
    char drain[4096];
    for (char *at = to; n;) {
        ssize_t got = recv(fd, at ? at : drain, at || n < sizeof drain ? n : sizeof drain, MSG_WAITALL);
        if (got < 0 && errno == EFAULT && at) { at = NULL; continue; }
        if (got <= 0 && !(got < 0 && errno == EINTR)) return 0;
        if (got > 0) { n -= got; if (at) at += got; }
    }
    return 1;
}
static void *receive(void *of)
{
    int fd = (int)(intptr_t)of;
    struct header h;
    while (take(fd, &h, sizeof h) && take(fd, (void *)(uintptr_t)h.address, h.bytes))
        if (h.has_imm) arrive(h.pair, h.imm, h.bytes);
    close(fd);
    return NULL;
}
static void start_thread(void *(*what)(void *), int fd)
{
    pthread_t t;
    if (pthread_create(&t, NULL, what, (void *)(intptr_t)fd)) abort();
    pthread_detach(t);
}
static void *listen_on(void *of)
{
    for (int fd; (fd = accept4((int)(intptr_t)of, NULL, NULL, SOCK_CLOEXEC)) >= 0;) start_thread(receive, fd);
    return NULL;
}
static int unix_socket(uint32_t process, struct sockaddr_un *where)
{
    where->sun_family = AF_UNIX;
    snprintf(where->sun_path, sizeof where->sun_path, "%s/%u", getenv("FAKEIB_WIRE"), process);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}
static void start(void)
{
    char path[4096];
    struct sockaddr_un here;
    snprintf(path, sizeof path, "%s/table", getenv("FAKEIB_WIRE"));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *table)) { perror(path); abort(); }
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    self = __atomic_add_fetch(&table->processes, 1, __ATOMIC_SEQ_CST) % PROCESSES;
    table->down[self] = port_down;
    for (int i = 0; i < PROCESSES; i++) { links[i].fd = -1; pthread_mutex_init(&links[i].lock, NULL); }
    fd = unix_socket(self, &here);
    if (bind(fd, (struct sockaddr *)&here, sizeof here) || listen(fd, 128)) { perror(here.sun_path); abort(); }
    start_thread(listen_on, fd);
}

uint32_t wire_number(struct qp *q)
{
    static uint32_t alone = FIRST_PAIR;
    if (!getenv("FAKEIB_WIRE")) return __atomic_add_fetch(&alone, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&starting);
    if (!table) start();
    pthread_mutex_unlock(&starting);
    uint32_t pair = (FIRST_PAIR + __atomic_add_fetch(&table->pairs, 1, __ATOMIC_SEQ_CST)) % PAIRS;
    pthread_mutex_lock(&naming);
    mine[pair] = q;
    pthread_mutex_unlock(&naming);
    __atomic_store_n(&table->owner[pair], self, __ATOMIC_RELEASE);
    return pair;
}
void wire_forget(struct qp *q)
{
    pthread_mutex_lock(&naming);
    mine[q->qp.qp_num % PAIRS] = NULL;
    pthread_mutex_unlock(&naming);
}
void wire_port(int down)
{
    pthread_mutex_lock(&starting);
    port_down = down;
    if (table) table->down[self] = down;
    pthread_mutex_unlock(&starting);
}

static int give(struct link *l, struct iovec *parts, int n)
{
    while (n) {
        ssize_t sent = sendmsg(l->fd, &(struct msghdr){ .msg_iov = parts, .msg_iovlen = n }, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return 0;
        for (; n && (size_t)sent >= parts->iov_len; n--) sent -= parts++->iov_len;
        if (n) { parts->iov_base = (char *)parts->iov_base + sent; parts->iov_len -= sent; }
    }
    return 1;
}
static int connected(struct link *l, uint32_t process)
{
    struct sockaddr_un there;
    struct timeval patience = { .tv_sec = 1 + (long)wire_patience() };
    if (l->fd >= 0) return 1;
    l->fd = unix_socket(process, &there);
    setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return l->fd >= 0 && connect(l->fd, (struct sockaddr *)&there, sizeof there) == 0;
}
static int over_link(uint32_t process, struct ibv_send_wr *wr, struct header *h)
{
    struct link *l = &links[process];
    struct iovec parts[33] = { { h, sizeof *h } };
    int n = 1;
    for (int i = 0; i < wr->num_sge && n < 33; i++)
        if (wr->sg_list[i].length) parts[n++] = (struct iovec){ (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length };
    pthread_mutex_lock(&l->lock);
    if (!l->dead && !(connected(l, process) && give(l, parts, n))) { l->dead = 1; if (l->fd >= 0) close(l->fd); }
    int dead = l->dead;
    pthread_mutex_unlock(&l->lock);
    return dead ? IBV_WC_RETRY_EXC_ERR : 0;
}

int wire_send(struct qp *q, struct ibv_send_wr *wr)
{
    if (!table) return 0;
    if (q->broken) return IBV_WC_WR_FLUSH_ERR;
    uint32_t process = __atomic_load_n(&table->owner[q->peer % PAIRS], __ATOMIC_ACQUIRE);
    struct header h = { .pair = q->peer, .has_imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM, .imm = wr->imm_data, .address = wr->wr.rdma.remote_addr };
    for (int i = 0; i < wr->num_sge; i++) h.bytes += wr->sg_list[i].length;
    if (process == self) { /* a flush reads, which needs nothing here: what was written is seen */
        char *to = (char *)(uintptr_t)h.address;
        if (wr->opcode == IBV_WR_RDMA_READ) return 0;
        for (int i = 0; i < wr->num_sge; to += wr->sg_list[i++].length) memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        if (h.has_imm) arrive(q->peer, h.imm, h.bytes);
        return 0;
    }
    int status = table->down[self] || table->down[process] ? IBV_WC_RETRY_EXC_ERR : over_link(process, wr, &h);
    q->broken = status != 0;
    return status;
}
