idf_component_register(SRCS main.c PRIV_REQUIRES driver)
