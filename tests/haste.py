"""How tests are compiled: in haste. Most of their time was the compiler's, for programs that run for milliseconds."""

FLAGS = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=1 "
    "--xla_llvm_disable_expensive_passes=true"
)
