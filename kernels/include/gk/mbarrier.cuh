// mbarrier: the barrier of asynchronous copies, an object of 8 bytes in shared memory. sm_90.
//
// A barrier lives in phases, numbered 0, 1, 2 ... and known by their parity alone. The phase in
// progress ends when as many arrivals as `init` said have come and as many bytes have landed as
// were expected of it; then the next begins with the full count of arrivals due. Bytes may land
// before they are expected, as long as an arrival of the same phase is still due.
//
// wait(parity) returns once the phase of that parity has ended: wait(0) waits for the first phase,
// and wait(1) on a fresh barrier returns at once, as if a phase before the first had ended. So a
// ring of stages needs no first lap of its own: the side that fills starts with parity 1 on
// barriers that mean "empty", the side that drains with parity 0 on those that mean "full", and
// each flips its parity when it comes round. A waiter may be at most one phase late, which the
// other side's wait guarantees.
//
// PTX ISA: "Parallel Synchronization and Communication Instructions: mbarrier".
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

// Who takes part: threads of the block, or of its cluster.
enum class Scope : u32 { kBlock, kCluster };

struct alignas(8) Barrier {
    u64 state; // the hardware's; touched by the functions below alone

    GK_DEVICE u32 address() const
    {
        return ptx::shared_address(this);
    }

    // By one thread, before anybody else; then fence_barrier_init and a barrier of the block (or
    // the cluster) let the others, and copies, see it.
    GK_DEVICE void init(u32 arrivals)
    {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                     :
                     : "r"(address()), "r"(arrivals)
                     : "memory");
    }

    // Counts once. What this thread did before is seen by those that wait for the phase.
    GK_DEVICE void arrive()
    {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(address()) : "memory");
    }

    // Counts once, and makes the phase wait for `bytes` more: those of the copies that the caller
    // is about to start, and of those that other blocks of the cluster send here.
    GK_DEVICE void arrive_expect_bytes(u32 bytes)
    {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :
                     : "r"(address()), "r"(bytes)
                     : "memory");
    }

    // The same without counting.
    GK_DEVICE void expect_bytes(u32 bytes)
    {
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                     :
                     : "r"(address()), "r"(bytes)
                     : "memory");
    }

    // Counts once on the barrier at the same place in block `rank` of the cluster, which may be
    // this one. Its waiters use Scope::kCluster.
    GK_DEVICE void arrive_at(u32 rank)
    {
        asm volatile("{\n"
                     ".reg .b32 there;\n"
                     "mapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                     "}"
                     :
                     : "r"(address()), "r"(rank)
                     : "memory");
    }

    // The same for a warp that has only read, and whose reads are complete (those of wgmma once
    // wgmma_wait has returned): says that they are, and publishes nothing. Its waiters start copies
    // over what was read, so any scope does. arrive_at costs a fence of the whole GPU, which a
    // reader that releases a stage every few hundred cycles cannot pay.
    GK_DEVICE void arrive_read_at(u32 rank)
    {
        asm volatile("{\n"
                     ".reg .b32 there;\n"
                     "mapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                     "}"
                     :
                     : "r"(address()), "r"(rank)
                     : "memory");
    }

    // True if the phase of this parity has ended. May suspend the thread for a moment first.
    template <Scope kScope = Scope::kBlock> GK_DEVICE bool try_wait(u32 parity) const
    {
        u32 ended;
        if constexpr (kScope == Scope::kBlock) {
            asm volatile("{\n"
                         ".reg .pred ended;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, ended;\n"
                         "}"
                         : "=r"(ended)
                         : "r"(address()), "r"(parity)
                         : "memory");
        } else {
            asm volatile("{\n"
                         ".reg .pred ended;\n"
                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], "
                         "%2;\n"
                         "selp.u32 %0, 1, 0, ended;\n"
                         "}"
                         : "=r"(ended)
                         : "r"(address()), "r"(parity)
                         : "memory");
        }
        return ended != 0;
    }

    // Returns when the phase of this parity has ended.
    template <Scope kScope = Scope::kBlock> GK_DEVICE void wait(u32 parity) const
    {
        while (!try_wait<kScope>(parity)) {
        }
    }

    // Ends the barrier's life: its 8 bytes are plain memory again.
    GK_DEVICE void invalidate()
    {
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(address()) : "memory");
    }
};

static_assert(sizeof(Barrier) == 8, "arrays of barriers are packed");

// Makes this thread's barrier inits visible to the cluster and to asynchronous copies; a barrier of
// the block or the cluster must follow. PTX ISA: fence.mbarrier_init.
GK_DEVICE void fence_barrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

// Where a walk round a ring of kStages stages stands. `parity` is that of the lap: 0, 1, 0 ...
template <u32 kStages> struct RingPosition {
    u32 stage = 0;
    u32 parity = 0;

    GK_DEVICE void advance()
    {
        ++stage;
        if (stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }

    // By `steps` at once.
    GK_DEVICE void advance(u32 steps)
    {
        const u32 end = stage + steps;
        stage = end % kStages;
        parity ^= end / kStages % 2;
    }
};

} // namespace gk
