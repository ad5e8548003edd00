# The inspector on the emulated device, against the host's own code; and where calls of the device fail.
gk_test(test_inspect LIBS gk_worker LABEL emu TIMEOUT 600)
gk_test(test_inspect_faults LIBS gk_worker LABEL emu)
gk_test(test_hidden LIBS gk_op_trial LABEL emu)
gk_test(test_rows_owned LIBS gk_worker LABEL emu)
