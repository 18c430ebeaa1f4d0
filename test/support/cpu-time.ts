/** What this thread has computed so far, in ms: on a busy machine it does not go on while others have the processor. */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
