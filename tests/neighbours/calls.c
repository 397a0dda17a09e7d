/* A profile function (PyEval_SetProfile) that counts calls, of Python functions and of C functions. */

enum { CALL = 0, C_CALL = 4 };

long calls = 0;

int count(void *object, void *frame, int what, void *argument) {
    (void)object, (void)frame, (void)argument;
    if (what == CALL || what == C_CALL)
        calls++;
    return 0;
}
