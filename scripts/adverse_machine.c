/* Preloaded into every program that scripts/adverse_machine.sh starts: slow syncs, or a wall clock that jumps.

   ADVERSE_SYNC_MS adds so many milliseconds to each fsync, fdatasync and syncfs. ADVERSE_CLOCK moves the wall clock
   every five seconds by up to four minutes, forwards or backwards, at the same moment in all programs: the offset is a
   function of the monotonic clock. The kernel's own clock does not jump: deadlines for it are moved back. A longer jump
   would end the state transfer of a Galera node: rsync gives up after 300 s without data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef ADVERSE_SYNC_MS
static void linger(void) {
  struct timespec pause = {ADVERSE_SYNC_MS / 1000, ADVERSE_SYNC_MS % 1000 * 1000000L};
  nanosleep(&pause, NULL);
}
int fsync(int fd) { linger(); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { linger(); return (int)syscall(SYS_fdatasync, fd); }
int syncfs(int fd) { linger(); return (int)syscall(SYS_syncfs, fd); }
#endif

#ifdef ADVERSE_CLOCK
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
static long offset(void) { /* seconds; zero in every third stretch */
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  unsigned long stretch = (unsigned long)now.tv_sec / 5, mixed = stretch * 2654435761UL >> 7;
  return stretch % 3 ? (long)(mixed % 241) - 120 : 0;
}
static int (*real_gettime)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real_gettime) real_gettime = next("clock_gettime");
  int result = real_gettime(clock, now);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec found;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *stored) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (stored) *stored = found.tv_sec;
  return found.tv_sec;
}
static struct timespec kernels(const struct timespec *deadline) { /* deadlines on the monotonic clock are small */
  struct timespec moved = *deadline;
  if (moved.tv_sec > 1000000000L) moved.tv_sec -= offset();
  return moved;
}
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict t) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec deadline = kernels(t);
  return real(c, m, &deadline);
}
int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict t) {
  static int (*real)(pthread_mutex_t *, const struct timespec *);
  if (!real) real = next("pthread_mutex_timedlock");
  struct timespec deadline = kernels(t);
  return real(m, &deadline);
}
int sem_timedwait(sem_t *restrict s, const struct timespec *restrict t) {
  static int (*real)(sem_t *, const struct timespec *);
  if (!real) real = next("sem_timedwait");
  struct timespec deadline = kernels(t);
  return real(s, &deadline);
}
#endif
