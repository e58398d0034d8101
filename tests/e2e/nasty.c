/* nasty ROLE PORT [NUMBER]: a target that misbehaves, as tests/agent/host_play.c has them; for
 * tests/e2e/nasty.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/agent/host_play.h"

int main(int argc, char **argv)
{
    char play[] = "--play";
    char *args[8] = { argv[0], play };
    int count = 2;

    for (int i = 1; i < argc && count < 7; i++)
        args[count++] = argv[i];
    host_play_hook(count, args);
    (void)fprintf(stderr, "nasty ROLE PORT [NUMBER]\n");
    return 2;
}
