/* A stand-in for the NVIDIA driver's library, with just enough for one batched copy between host addresses. Its
 * declarations are those of cuda.h 12.8, so that a caller with another argument layout fails here as it would there. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef void *CUstream;
typedef struct {
    int type;
    int id;
} CUmemLocation;
typedef struct {
    int srcAccessOrder;
    CUmemLocation srcLocHint;
    CUmemLocation dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500, STREAM_ORDER = 1, DRIVER_VERSION = 13000 };

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                            CUstream hStream) {
    if (numAttrs != 1 || attrs[0].srcAccessOrder != STREAM_ORDER || attrs[0].flags != 0 || hStream != (CUstream)0x1234) {
        *failIdx = SIZE_MAX;
        return INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (attrsIdxs[i] != 0 || sizes[i] == 0) {
            *failIdx = i;
            return INVALID_VALUE;
        }
        memcpy((void *)dsts[i], (void *)srcs[i], sizes[i]);
    }
    return SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = DRIVER_VERSION;
    return SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    (void)flags;
    *function = NULL;
    if (!strcmp(symbol, "cuMemcpyBatchAsync") && version == 12080) *function = (void *)cuMemcpyBatchAsync;
    if (!strcmp(symbol, "cuDriverGetVersion")) *function = (void *)cuDriverGetVersion;
    if (!strcmp(symbol, "cuGetProcAddress")) *function = (void *)cuGetProcAddress_v2;
    if (status) *status = *function == NULL;
    return *function ? SUCCESS : NOT_FOUND;
}
