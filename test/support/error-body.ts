/** The error body of nodes (protocol 0). */
export function errorBody(code: string, message: string): string {
  return JSON.stringify({ message, error_code: code, vm_error_code: null });
}
