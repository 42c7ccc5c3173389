idf_component_register(SRCS src/circlematch.c src/cm_@name@.c INCLUDE_DIRS include)
target_compile_options(${COMPONENT_LIB} PRIVATE -O2 -fno-math-errno)
