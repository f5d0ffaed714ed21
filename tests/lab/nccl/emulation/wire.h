/* The wire between emulated adapters: verbs.c makes queue pairs and completions, wire.c brings the bytes. */
#ifndef FAKEIB_WIRE_H
#define FAKEIB_WIRE_H
#include <infiniband/verbs.h>
#include <pthread.h>

#define RING 4096
struct cq { struct ibv_cq cq; pthread_mutex_t lock; struct ibv_wc done[RING]; double due[RING]; unsigned head, tail; };
struct arrival { uint32_t imm, bytes; };
struct qp {
    struct ibv_qp qp;
    uint32_t peer;                                            /* the number of the queue pair at the other end */
    int broken;                                               /* a send failed: what follows is flushed */
    pthread_mutex_t lock;
    uint64_t posted[RING]; unsigned first, last;              /* receives that wait for a message */
    struct arrival arrived[RING]; unsigned oldest, newest;    /* messages that wait for a receive */
};

double wire_now(void);                                                   /* seconds */
void wire_complete(struct ibv_cq *cq, struct ibv_wc wc, double due);     /* a completion, to be polled from due on */
uint32_t wire_number(struct qp *qp);                                     /* a number of its own among all nodes */
void wire_forget(struct qp *qp);
void wire_match(struct qp *qp);                                          /* completes receives that have a message */
void wire_port(int down);                                                /* this process's port loses its link, or has it again */
int wire_send(struct qp *qp, struct ibv_send_wr *wr);                    /* 0, or the status of a completion that comes late */
double wire_patience(void);                                              /* seconds until the adapter gives up a peer */
#endif
