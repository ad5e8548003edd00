# What the emulated device must reject, and what it must not accuse.
gk_test(test_ptx_mutants SOURCES ptx_mutants.c LIBS gk_core)
gk_test(test_emu_mutants SOURCES template_cases.c template_rig.c wgmma_rig.c mutant_table.c ptx_mutants.c emu_for_tests.c nvrtc_for_tests.c
  LIBS gk_emu gk_core gk_dep_cuda m LABEL emu TIMEOUT 1200)
gk_test(test_emu_twins SOURCES twin.c emu_for_tests.c nvrtc_for_tests.c LIBS gk_emu gk_core gk_dep_cuda m
  LABEL emu TIMEOUT 1200)
gk_test(test_emu_broken SOURCES mistake_list.c template_cases.c template_rig.c wgmma_rig.c emu_for_tests.c nvrtc_for_tests.c
  LIBS gk_emu gk_core gk_dep_cuda m LABEL emu TIMEOUT 1200)
gk_test(test_emu_seeds SOURCES template_cases.c template_rig.c wgmma_rig.c emu_for_tests.c nvrtc_for_tests.c
  LIBS gk_emu gk_core gk_dep_cuda m LABEL emu TIMEOUT 1800)
gk_test(test_emu_proven SOURCES template_cases.c template_rig.c wgmma_rig.c emu_for_tests.c nvrtc_for_tests.c
  LIBS gk_emu gk_core gk_dep_cuda m LABEL emu TIMEOUT 600)
