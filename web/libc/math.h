/* What the engine needs of the C library's math.h: both are instructions of WebAssembly. */
#define sqrtf __builtin_sqrtf
#define fabsf __builtin_fabsf
