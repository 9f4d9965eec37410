#!/bin/bash
# Compiles a sample of the sources that `tilesmith generate` writes against a real tree of Composable Kernel, for each chip: front end only (no
# assembler, no linker), the device pass and the host pass. Prints a line for each source and the counts; status 1 when one does not compile.
#
#   TILESMITH_CK_DIR=/path/to/composable_kernel tools/check_ck.sh [VERSION [CHIP...]]
#
# VERSION is one that specs/amd/ck/sources.json knows. Variables: TILESMITH (the program), CLANG (clang++), SAMPLE (sources of each family and chip, 2),
# FAMILIES (some of the default's, joined by spaces; gemm:VARIANT and conv:FILTER are GEMM's and convolution's), HIP_FLAGS (where there is no ROCm: -nogpulib -nogpuinc -I<HIP's headers> ...), PASSES (device host).
set -u
ck=${TILESMITH_CK_DIR:?names a tree of Composable Kernel}
version=${1:-}; shift || true
[ $# -gt 0 ] || set -- gfx90a gfx942 gfx950
tilesmith=${TILESMITH:-tilesmith}
clang=${CLANG:-clang++}
sample=${SAMPLE:-2}
families=${FAMILIES:-fwd fwd_splitkv fwd_splitkv_combine fwd_pagedkv fwd_appendkv batch_prefill bwd_dot_do_o bwd_dq_dk_dv bwd_convert_dq
  gemm:standard gemm:preshuffle gemm:multi_d gemm:stream_k gemm:grouped
  conv:fwd conv:bwd_data conv:bwd_weight conv:two_stage conv:stream_k conv:depthwise}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
passed=0; failed=0
for chip; do
  for family in $families; do
    variant=${family#fwd_}; case $family in fwd) variant=fwd ;; bwd_*) variant=bwd ;; fwd_splitkv*) variant=splitkv ;; esac
    case $family in
      gemm:*) select=(--op gemm --variant "${family#gemm:}" --dtype fp16,bf16) ;;
      conv:two_stage) select=(--op conv --filter "c.two_stage") ;;
      conv:stream_k) select=(--op conv --filter "c.stream_k_reduction != 'none'") ;;
      conv:depthwise) select=(--op conv --filter "c.depthwise") ;;
      conv:*) select=(--op conv --filter "c.direction == \"${family#conv:}\" and not c.depthwise and not c.two_stage and c.stream_k_reduction == 'none'") ;;
      *) select=(--variant "$variant" --dtype fp16,bf16,fp8 --filter "c.family == \"$family\"") ;;
    esac
    out=$work/$chip.$family
    "$tilesmith" generate --arch "$chip" "${select[@]}" \
      --max 2000000 ${version:+--ck-version $version} --sample "$sample" --out "$out" >"$work/log" 2>&1 || { printf '%-8s %-20s %s\n' $chip $family "no source: $(head -1 "$work/log")"; continue; }
    for source in "$out"/kernels/*.cpp; do
      for pass in ${PASSES:-device host}; do
        started=$SECONDS
        if "$clang" -x hip -std=c++17 --offload-arch=$chip --cuda-$pass-only -fsyntax-only -DCK_TILE_FMHA_FWD_FAST_EXP2=1 \
             ${HIP_FLAGS:-} -I "$out" -I "$ck/include" "$source" >"$work/log" 2>&1; then
          passed=$((passed + 1)); word=compiles
        else
          failed=$((failed + 1)); word="FAILS: $(grep -m1 -E 'error' "$work/log")"
        fi
        printf '%-8s %-20s %-6s %3d s  %s\n    %s\n' $chip $family $pass $((SECONDS - started)) "$(basename "$source" .cpp)" "$word"
      done
    done
  done
done
echo "$passed compiled, $failed failed (front end only)"
[ $failed -eq 0 ]
