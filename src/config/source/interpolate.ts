/** `${NAME}` in config text stands for an environment variable; `$${` is a literal `${`. */

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Interpolated {
  readonly value: string;
  /** True when a variable was put in: the text as written is then what may be shown to people. */
  readonly replaced: boolean;
  readonly faults: readonly string[];
}

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

/** The text that interpolates to `value`, so that shown config can be read back. */
export function escapeInterpolation(value: string): string {
  return value.replaceAll('${', '$${');
}
