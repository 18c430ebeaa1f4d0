/** Completion of commands, flags and their values, generated from the table of commands. */
import { type CliCommand, type Flag, type FlagName, flags } from './flags.ts';

/** A script that the shell sources. Where it proposes nothing, the shell proposes files. */
export function completionScript(shell: 'bash' | 'zsh' | 'fish', commands: readonly CliCommand[]): string {
  return scripts[shell](commands);
}

/** Words that are no commands of the table. */
const further = ['help', 'version'];

const scripts: Readonly<Record<'bash' | 'zsh' | 'fish', (commands: readonly CliCommand[]) => string>> = {
  bash: (commands) => `_ledgergate() {
  local words='' cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then words='${[...namesOf(commands), ...further].join(' ')}'
  else
    case $prev in
${valueCases()}
      *)
        case \${COMP_WORDS[1]} in
          help) words='${namesOf(commands).join(' ')}' ;;
${commands.map((command) => `          ${command.name}) words='${wordsOf(command)}' ;;`).join('\n')}
        esac
        # Flags once there is a dash: otherwise the operand, which mostly is a file.
        [[ $cur == -* ]] || words=\${words%%--*} ;;
    esac
  fi
  local IFS=$' \\n'
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _ledgergate ledgergate`,

  zsh: (commands) => `#compdef ledgergate
_ledgergate() {
  local found=''
  local -a names=(${[...commands.map(({ name, summary }) => `${name}:${summary}`), ...further].map(quoted).join(' ')})
  if ((CURRENT == 2)); then _describe command names; return; fi
  case $words[CURRENT-1] in
${valueCases('found')}
    *)
      case $words[2] in
        help) found='${namesOf(commands).join(' ')}' ;;
${commands.map((command) => `        ${command.name}) found='${wordsOf(command)}' ;;`).join('\n')}
      esac
      [[ $PREFIX == -* ]] || found=\${found%%--*} ;;
  esac
  if [[ -n \${found// /} ]]; then compadd -- \${(z)found}; else _files; fi
}
if [[ $funcstack[1] == _ledgergate ]]; then _ledgergate "$@"; else compdef _ledgergate ledgergate; fi`,

  fish: (commands) =>
    [
      ...further.map((word) => `complete -c ledgergate -f -n __fish_use_subcommand -a ${word}`),
      `complete -c ledgergate -f -n '__fish_seen_subcommand_from help' -a '${namesOf(commands).join(' ')}'`,
      ...commands.flatMap(({ name, summary, choices, flags: own }) => [
        `complete -c ledgergate -f -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
        ...(choices === undefined
          ? []
          : [`complete -c ledgergate -f -n '__fish_seen_subcommand_from ${name}' -a '${choices.join(' ')}'`]),
        ...own.map(
          (flag) => `complete -c ledgergate -n '__fish_seen_subcommand_from ${name}' -l ${flag} ${fishValue(flag)}`,
        ),
      ]),
    ].join('\n'),
};

function namesOf(commands: readonly CliCommand[]): readonly string[] {
  return commands.map(({ name }) => name);
}

/** The choices of the operand, then the flags. */
function wordsOf({ choices = [], flags: own }: CliCommand): string {
  return [...choices, ...[...own, 'help'].map((flag) => `--${flag}`)].join(' ');
}

/** Words for the value of a flag; none for free text and files. */
function valueCases(variable = 'words'): string {
  const names = Object.keys(flags) as FlagName[];
  const valued = names.filter((name) => 'value' in flags[name]);
  const worded = valued.filter((name) => valuesOf(name).length > 0);
  const free = valued.filter((name) => valuesOf(name).length === 0);
  return [
    ...worded.map((name) => `      --${name}) ${variable}='${valuesOf(name).join(' ')}' ;;`),
    `      ${free.map((name) => `--${name}`).join(' | ')}) ;;`,
  ].join('\n');
}

function valuesOf(name: FlagName): readonly string[] {
  const { choices, proposed }: Flag = flags[name];
  return choices ?? proposed ?? [];
}

function fishValue(name: FlagName): string {
  const { value, meaning }: Flag = flags[name];
  const words = valuesOf(name);
  const form =
    words.length > 0 ? `-x -a '${words.join(' ')}'` : value === 'FILE' ? '-r -F' : value === undefined ? '-f' : '-x';
  return `${form} -d ${quoted(meaning)}`;
}

/** One word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
