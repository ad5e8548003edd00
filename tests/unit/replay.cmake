gk_test(test_replay LIBS gk_search)
