/**
 * A `setTimeout` that runs `action` after the sockets were read once more. Node runs timers before it polls sockets, so
 * after a pause of this process every due time-out would fire although its answer lies in the kernel. `action` checks
 * whether it is still wanted: clearing the timer does not stop it once it is due.
 */
export function setPatientTimeout(action: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(() => setImmediate(action), ms);
}
