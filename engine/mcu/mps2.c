/* board.h for Arm's MPS2 boards (AN385: M3, AN386: M4F, AN500: M7) in QEMU, and their start-up code.
 *
 * Instructions: with -icount shift=10 every instruction takes 2^10 ns of the board's time. The board's timer counts at
 * 25 MHz, so an instruction is 25.6 ticks, and ticks / 25.6, rounded, is the exact number of instructions:
 *     77 ticks / 25.6 = 3.008  ->  3 instructions
 *
 * Stack: it is filled with a pattern before main. Where the pattern is gone, the stack was used.
 */
#include "board.h"

#define FPU_ACCESS (*(volatile uint32_t *)0xE000ED88u)
#define TIMER_CONTROL (*(volatile uint32_t *)0x40000000u)
#define TIMER_VALUE (*(volatile uint32_t *)0x40000004u)     /* counts down */
#define TIMER_RELOAD (*(volatile uint32_t *)0x40000008u)

#define SYS_WRITE0 0x04u
#define SYS_EXIT_EXTENDED 0x20u
#define APPLICATION_EXIT 0x20026u

#define PATTERN 0x5AFE5AFEu

extern uint32_t data_begin[], data_end[], data_source[], bss_begin[], bss_end[], stack_begin[], stack_end[];

int main(void);
void reset(void);

/* Semihosting: asks the debugger, which is QEMU here, to perform an operation. */
static void ask(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void board_leave(uint32_t code)
{
    const uint32_t block[2] = { APPLICATION_EXIT, code };
    ask(SYS_EXIT_EXTENDED, block);
    for (;;)
        ;
}

static void fault(void)
{
    board_print("fault\n");
    board_leave(3);
}

void reset(void)
{
    const uint32_t *from = data_source;
    for (uint32_t *to = data_begin; to < data_end;)
        *to++ = *from++;
    for (uint32_t *to = bss_begin; to < bss_end;)
        *to++ = 0;
    uint32_t *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (uint32_t *to = stack_begin; to < here;)
        *to++ = PATTERN;
#ifdef __ARM_FP
    FPU_ACCESS |= 0xFu << 20;
    __asm__ volatile("dsb\n\tisb");
#endif
    TIMER_RELOAD = 0xFFFFFFFFu;
    TIMER_VALUE = 0xFFFFFFFFu;
    TIMER_CONTROL = 1;
    board_leave((uint32_t)main());
}

/* The vector table: the initial stack pointer, the reset handler and the handlers of five faults. */
typedef struct {
    uint32_t *stack_end;
    void (*begin)(void);
    void (*faults[5])(void);
} vector_table;

__attribute__((section(".vectors"), used)) static const vector_table vectors = {
    stack_end, reset, { fault, fault, fault, fault, fault },
};

void board_print(const char *text)
{
    ask(SYS_WRITE0, text);
}

uint32_t board_clock(void)
{
    return TIMER_VALUE;
}

uint32_t board_instructions(uint32_t before, uint32_t after)
{
    return ((before - after) * 10u + 128u) / 256u;  /* up to 16 million */
}

void board_loop(uint32_t rounds)
{
    __asm__ volatile("1: subs %0, #1\n\tbne 1b" : "+r"(rounds) : : "cc");
}

uint32_t board_stack_used(void)
{
    const uint32_t *at = stack_begin;
    while (at < stack_end && *at == PATTERN)
        at++;
    return (uint32_t)((const uint8_t *)stack_end - (const uint8_t *)at);
}
