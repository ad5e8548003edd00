gk_test(test_blob_text LIBS gk_cli)
