gk_test(test_export LIBS gk_cli)
gk_test(test_options LIBS gk_cli)
gk_test(test_vendor_cell LIBS gk_cli)
gk_test(test_suite_file LIBS gk_cli)
