/* tests/agent/host_play.h - programs that a target test runs: the test's own binary, told by
 * "--play ROLE ARGUMENT..." to misbehave in one way or another. */
#ifndef LS_TESTS_AGENT_HOST_PLAY_H
#define LS_TESTS_AGENT_HOST_PLAY_H

/* Does not return if this process is to play a role. Call from main(), after
 * host_target_main_hook(). */
void host_play_hook(int argc, char **argv);

#endif
