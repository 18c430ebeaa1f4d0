/** The error body of nodes (protocol 0). */
export function errorBody(code: string, message = 'm'): string {
  return JSON.stringify({ message, error_code: code, vm_error_code: null });
}
