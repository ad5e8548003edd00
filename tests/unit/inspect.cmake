# The inspector on the emulated device, against the host's own code.
gk_test(test_inspect LIBS gk_worker LABEL emu TIMEOUT 600)
