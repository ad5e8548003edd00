struct judge;
