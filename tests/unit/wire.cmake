gk_test(test_wire LIBS gk_core)
gk_test(test_link LIBS gk_link)
gk_test(test_loop LIBS gk_link gk_loop)
