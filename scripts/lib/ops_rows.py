"""The rows that docs/results/h200-ops.md shows for every family but gemm: problem, what it must move and compute, peers.

Bytes and operations are counted as the peers' program counts them (reads and writes that no kernel can avoid; 2 operations a
multiply-add; half of them under a causal mask), so that a figure of ours and one of theirs mean the same. Shapes leave out
what equals the op's default: they are then spelt as gktune's canonical problems.
"""

KV_BYTES = 2
HEAD_DIM = 128
# NVIDIA's data sheet of the H200 (SXM): 4.8 TB/s and, without sparsity, 989.5 TFLOP/s in bf16.
PEAK_BYTES_PER_S = 4.8e12
PEAK_FLOPS = 989.5e12
# Lengths between 256 and 7936 with the sum of 32 times 4096.
UNEQUAL = [4096 + (2 * i - 31) * 3840 // 31 for i in range(32)]
UNEQUAL[-1] += 32 * 4096 - sum(UNEQUAL)


def row(op, name, shape, bytes_, flops=0.0, peer=None, note="", **goals):
    """`note`: what a reader of the figure must know."""
    return {"op": op, "name": name, "shape": shape, "bytes": float(bytes_), "flops": float(flops), "peer": peer, "note": note,
            "goals": goals}


def decode_shape(batch, q_heads, kv_heads, kv_len, **more):
    """The peers' cache is [batch, head, key, column]."""
    shape = {"batch": batch, "q_heads": q_heads, "kv_len": kv_len, "kv_layout": "HND", **more}
    if kv_heads != q_heads:
        shape["kv_heads"] = kv_heads
    return shape


def decode():
    rows = []
    small = {(1, 4096): 10.0, (1, 16384): 20.0, (1, 131072): 132.0}
    for q_heads, kv_heads in ((32, 8), (64, 8), (32, 32)):
        for batch, kv_len in ((1, 4096), (1, 16384), (1, 131072), (8, 4096), (8, 16384), (32, 4096), (64, 8192), (128, 4096)):
            moved = 2 * KV_BYTES * batch * kv_heads * kv_len * HEAD_DIM
            goals = {}
            if moved >= 500e6:
                goals["of_peer"] = {"cudnn": 0.97}
            if (q_heads, kv_heads) == (32, 8) and (batch, kv_len) in small:
                goals["us"] = small[batch, kv_len]
            rows.append(row("attention_decode", "B%d %d/%d KV %d" % (batch, q_heads, kv_heads, kv_len),
                            decode_shape(batch, q_heads, kv_heads, kv_len), moved, 4.0 * batch * q_heads * kv_len * HEAD_DIM,
                            {"op": "attn_decode", "B": batch, "Hq": q_heads, "Hkv": kv_heads, "S": kv_len, "D": HEAD_DIM}, **goals))
    base, moved, flops = "B32 32/8 KV 4096", 2 * KV_BYTES * 32 * 8 * 4096 * HEAD_DIM, 4.0 * 32 * 32 * 4096 * HEAD_DIM
    for page in (16, 64):
        rows.append(row("attention_decode", "%s, pages of %d" % (base, page), decode_shape(32, 32, 8, 4096, page_size=page), moved,
                        flops, of_row=(base, 1.05)))
    rows.append(row("attention_decode", "%s, keys before heads" % base,
                    {"batch": 32, "q_heads": 32, "kv_heads": 8, "kv_len": 4096}, moved, flops))
    rows.append(row("attention_decode", "B32 32/8 KV 256 to 7936, the same sum",
                    decode_shape(32, 32, 8, 8192, kv_lens={"each": UNEQUAL}), moved, flops, of_row=(base, 1.10)))
    rows.append(row("attention_decode", "%s, e4m3" % base, decode_shape(32, 32, 8, 4096, kv_dtype="e4m3"), moved / 2, flops,
                    of_row=(base, 0.60)))
    return rows


def mla():
    rows = []
    for batch, heads, kv_len in ((128, 16, 4096), (1, 128, 4096), (1, 128, 32768), (16, 128, 4096), (64, 128, 4096),
                                 (128, 128, 4096), (128, 128, 8192)):
        goals = {"tb_per_s": 3.0} if heads == 16 else {"of_peer": {"torch_bmm": 1.0}}
        rows.append(row("mla_decode", "B%d, %d heads, KV %d" % (batch, heads, kv_len),
                        {"batch": batch, "q_heads": heads, "kv_len": kv_len}, 2.0 * batch * kv_len * 576,
                        2.0 * batch * heads * kv_len * (576 + 512),
                        None if heads == 16 else {"op": "mla_decode", "B": batch, "Hq": heads, "S": kv_len}, **goals))
    return rows


def prefill():
    rows = []
    for batch, seq in ((4, 4096), (2, 8192), (1, 16384)):
        for causal in (False, True):
            shape = {"batch": batch, "q_heads": 16, "seq_q": seq}
            if batch == 1:
                del shape["batch"]
            if not causal:
                shape["mask"] = "full"
            flops = 4.0 * batch * 16 * seq * seq * HEAD_DIM * (0.5 if causal else 1.0)
            rows.append(row("attention", "B%d 16 heads S %d, %s" % (batch, seq, "causal" if causal else "full"), shape,
                            8.0 * batch * 16 * seq * HEAD_DIM, flops,
                            {"op": "attn_prefill", "B": batch, "Hq": 16, "Hkv": 16, "S": seq, "D": HEAD_DIM, "causal": causal},
                            of_peer={"fa2": 1.0}))
    return rows


def rows_ops():
    rows = []
    for m, n in ((256, 4096), (4096, 4096), (8192, 8192)):
        element = 2.0 * m * n
        small = {"of_peer": {"compile": 1.0}, "pair": {"ours_again": "compile_again", "ours_kept": "compile_kept"},
                 "note": "the peers' program lets its outputs go after each launch, so that the next one writes the same memory, which stays "
                         "in L2 and is never written back while it is timed (`compile`); policy cold-graph has outputs that rotate with the inputs. "
                         "`scripts/lib/torch_outputs.py` times torch's and the exported winner both ways in one loop: `.._again` and `.._kept`. "
                         "`add_kept` is what torch takes in the same loop to add and store alone, its outputs rotating"} if m == 256 else {}
        big = m == 8192
        rows.append(row("rmsnorm_residual", "%d x %d" % (m, n), {"rows": m, "cols": n}, 4 * element,
                        peer={"op": "rmsnorm_residual", "M": m, "N": n}, **({"tb_per_s": 4.1} if big else small)))
        small = {"of_peer": {"compile": 1.0}} if m == 256 else {}
        rows.append(row("layernorm_dropout_residual", "%d x %d" % (m, n), {"rows": m, "cols": n}, 4 * element,
                        peer={"op": "layernorm_dropout_residual", "M": m, "N": n},
                        **({"tb_per_s": 3.9, "note": "the peer writes one tensor (it moves 3 of rows x cols), ours the new residual too (4): "
                                                     "each rate is of what its own function moves"} if big else small)))
    for m, n in ((256, 14336), (4096, 14336), (8192, 28672)):
        rows.append(row("silu_mul", "%d x %d" % (m, n), {"rows": m, "cols": n}, 6.0 * m * n, peer={"op": "silu_mul", "M": m, "N": n},
                        **({"tb_per_s": 4.3} if m == 8192 else {})))
    rows.append(row("gelu_mul", "8192 x 28672", {"rows": 8192, "cols": 28672}, 6.0 * 8192 * 28672))
    for batch in (1, 8): # the peer turns 32 heads of one tensor, ours 24 of Q and 8 of K: as many bytes
        rows.append(row("rope", "%d x 4096 x 32 x 128" % batch,
                        {"tokens": batch * 4096, "q_heads": 24, "kv_heads": 8, "head_dim": 128}, 4.0 * batch * 4096 * 32 * 128,
                        peer={"op": "rope", "B": batch, "S": 4096, "H": 32, "D": 128}, **({"tb_per_s": 4.0} if batch == 8 else {})))
    for t, v in ((4096, 32000), (8192, 128256)):
        rows.append(row("cross_entropy", "%d x %d" % (t, v), {"rows": t, "cols": v}, 2.0 * t * v,
                        peer={"op": "cross_entropy", "T": t, "V": v}, **({"tb_per_s": 4.0} if t == 8192 else {})))
    rows.append(row("softmax", "64 x 128256, f32", {"rows": 64, "cols": 128256, "dtype": "f32"}, 8.0 * 64 * 128256))
    rows.append(row("softmax", "8192 x 8192", {"rows": 8192, "cols": 8192}, 4.0 * 8192 * 8192))
    return rows


def products():
    rows = [row("linear_cross_entropy", "4096 x 4096 x 128256", {"rows": 4096, "cols": 128256, "K": 4096},
                2.0 * 4096 * (4096 + 128256), 2.0 * 4096 * 4096 * 128256, {"op": "linear_cross_entropy", "T": 4096, "D": 4096, "V": 128256})]
    for m in (16, 2048):
        rows.append(row("swiglu_gateup", "M %d, 4096 to 14336" % m, {"M": m, "N": 14336, "K": 4096},
                        2.0 * (4096 * (m + 2 * 14336) + m * 14336), 4.0 * m * 14336 * 4096))
    return rows


def every():
    return rows_ops() + decode() + mla() + prefill() + products()


def floor_ns(of):
    """No kernel is faster than its bytes over the memory's rate, nor than its operations over the tensor cores'."""
    return 1e9 * max(of["bytes"] / PEAK_BYTES_PER_S, of["flops"] / PEAK_FLOPS)
