/* libgdrapi.so.2 over memory that is the host's anyway.  FAKEGDR_FAULT=open|pin_buffer|map: that call fails. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct handle { unsigned long h; };
struct info { uint64_t va, mapped_size; uint32_t page_size; uint64_t tm_cycles; uint32_t cycles_per_ms; unsigned mapped : 1, wc_mapping : 1; };
static int fails(const char *call) { const char *v = getenv("FAKEGDR_FAULT"); return v && !strcmp(v, call); }

void *gdr_open(void) { return fails("open") ? NULL : malloc(1); }
int gdr_close(void *g) { free(g); return 0; }
int gdr_pin_buffer(void *g, unsigned long at, size_t n, uint64_t p, uint32_t v, struct handle *h)
{ (void)g; (void)n; (void)p; (void)v; h->h = at; return fails("pin_buffer") ? 22 : 0; }
int gdr_unpin_buffer(void *g, struct handle h) { (void)g; (void)h; return 0; }
int gdr_get_info(void *g, struct handle h, struct info *i)
{ (void)g; memset(i, 0, sizeof *i); i->va = h.h; i->page_size = 65536; return 0; }
int gdr_map(void *g, struct handle h, void **va, size_t n) { (void)g; (void)n; *va = (void *)h.h; return fails("map") ? 11 : 0; }
int gdr_unmap(void *g, struct handle h, void *va, size_t n) { (void)g; (void)h; (void)va; (void)n; return 0; }
void gdr_runtime_get_version(int *major, int *minor) { *major = 2; *minor = 4; }
int gdr_driver_get_version(void *g, int *major, int *minor) { (void)g; *major = 2; *minor = 4; return 0; }
int gdr_copy_to_mapping(struct handle h, void *to, const void *from, size_t n) { (void)h; memcpy(to, from, n); return 0; }
int gdr_copy_from_mapping(struct handle h, void *to, const void *from, size_t n) { (void)h; memcpy(to, from, n); return 0; }
