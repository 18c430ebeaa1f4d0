/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

interface Interpolated {
  readonly value: string;
  /** Whether `value` contains a variable, so that only the text as written may be printed. */
  readonly replaced: boolean;
  readonly faults: readonly string[];
}

/** Replaces `${NAME}` by the variable, `$${` by `${`. Faults name the variable, never a value. */
export function interpolate(text: string, env: Environment): Interpolated {
  const faults: string[] = [];
  let replaced = false;
  const value = text.replaceAll(/\$\$\{|\$\{([^}]*)(\}?)/g, (match, name: string | undefined, end: string) => {
    if (name === undefined) return '${';
    replaced = true;
    const found = /^[A-Za-z_]\w*$/.test(name) && Object.hasOwn(env, name) ? env[name] : undefined;
    if (end === '') faults.push(`"${match}" has no closing brace (write $\${ for a literal \${)`);
    else if (!/^[A-Za-z_]\w*$/.test(name)) faults.push(`"${name}" is not the name of an environment variable`);
    else if (found === undefined) faults.push(`the environment variable ${name} is not set`);
    return found ?? match;
  });
  return { value, replaced, faults };
}

/** The text that interpolates to `value`. */
export function escapeInterpolation(value: string): string {
  return value.replaceAll('${', '$${');
}
