/**
 * Mutants that no test can kill, or that none should, with the reason: by file, and by mutated text and replacement as
 * `npm run mutate` prints them.
 */
const equal = 'the result is the same either way';
const typesAlone = 'for types alone';
const noSuchName = 'no parameter has that name';
const bodyAndJson = 'for types alone: a body that was read comes with its JSON';
const plainPath = 'spares plain paths the decoding; `pathBelow` refuses plain dot segments';
const sparesSearch = 'spares the search for the deepest; the score asks the same';
const missIsMiss = 'without an answer to keep, a 410 and a 404 leave the same choice of transactions';
const noHeadBelow = 'for types alone: no head is below undefined';
const recordedTogether = 'for types alone: the last outcome and its node are recorded together';
const othersAreKnown = 'the nodes that are not drained are listed already';
const cacheAlone = 'what the cache of tags holds, which is a shortcut';
const viewsAlone = 'only the subject of a view has that form, from its start';
const noFloors = 'without floors both limits are absent, and no floor is there to be forgotten';
const shortcut = 'spares the usual case the work, with the same result';

const abiHead = String.raw`/^"abi"\s*:\s*\{\s*"address"\s*:\s*"([^"\\]*)"\s*,\s*"name"\s*:\s*"([^"\\]*)"/`;
/** Parts of the pattern, each with what a mutant has in its place. */
const abiHeadMutants = [
  ['"abi"\\s*:', '"abi"\\s:'],
  [':\\s*\\{', ':\\s\\{'],
  ['\\{\\s*', '\\{\\s'],
  ['"address"\\s*:', '"address"\\s:'],
  ['"address"\\s*:', '"address"\\S*:'],
  ['"address"\\s*:\\s*', '"address"\\s*:\\s'],
  ['"address"\\s*:\\s*', '"address"\\s*:\\S*'],
  ['*)"\\s*,', ')"\\s*,'],
  ['[^"\\\\]*)"\\s*,', '["\\\\]*)"\\s*,'],
  [')"\\s*,', ')"\\s,'],
  [')"\\s*,', ')"\\S*,'],
  [',\\s*', ',\\s'],
  ['"name"\\s*:', '"name"\\s:'],
  ['"name"\\s*:\\s*', '"name"\\s*:\\s'],
  ['*)"/', ')"/'],
  ['[^"\\\\]*)"/', '["\\\\]*)"/'],
] as const;
const abiIsParsed = 'without a match the whole body is parsed, with the same result';

export const explained: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'src/upstream/contradictions.ts': {
    'claim.timestampUsec < nowUsec => claim.timestampUsec <= nowUsec': equal,
    'lag < 0n => lag <= 0n': equal,
    'lag > longestLagUsec => lag >= longestLagUsec': equal,
    'hint !== undefined => true': 'for types alone: `undefined` is in no range',
    'elected === undefined => false': 'for types alone: `undefined` has no votes',
  },
  'src/cache/kinds.ts': {
    '\'history\' => ""': 'decisions ask for `state`; `explain` alone shows the other class',
    "{ class: 'history', accounts: 'none' } => {}": 'the default of each decision',
  },
  'src/access/limits/window.ts': {
    'extraCost > 0 => extraCost >= 0': 'nothing is added',
    '-Infinity => +Infinity': 'the owner sets the time of the first use as soon as the account is made',
    'this.#used <= 0 => this.#used < 0': equal,
    'part < this.#newest => part <= this.#newest': 'the result after the loop is that of its last part',
    'steps <= 0 => steps < 0': 'sums the same amounts anew',
    'this.#oldest < this.#newest => true': 'the loop ends at what is in use, which is not above the newest part',
    'this.#oldest < this.#newest => this.#oldest <= this.#newest': 'the loop ends at what is in use',
  },
  'src/proxy/routes/canonical-body.ts': {
    'at < bytes.length => at <= bytes.length': 'no bytes change no digest',
    'at > 0 => true': 'one turn more',
    'at > 0 => at >= 0': 'one turn more',
    "typeof body !== 'object' => false": 'for types alone: a boolean or a text has no kind',
  },
  'src/cache/epoch/epoch.ts': {
    'one.id < other.id => one.id <= other.id': 'no two fields of a hash have one name',
    '\'\' => "Stryker was here!"': 'for types alone: a group of a match, or no match and no number',
    '[] => ["Stryker was here"]': 'no number either way',
    'version === undefined => false': 'undefined is at or below no version',
    'head !== undefined => true': 'for types alone: undefined is at or above no version',
  },
  'src/proxy/reads/asked-content.ts': {
    '[] => ["Stryker was here"]': 'without a match there is no name and no address',
    "typeof value === 'number' => true": 'for types alone: no other value is an integer',
    '!isText(type) => false': 'for types alone: no other value is a tag',
    'type === asked => false': shortcut,
    'value === asked => false': shortcut,
    'creation === number => false': shortcut,
    'Math.max(body.indexOf(\'"abi"\'), 0) => Math.min(body.indexOf(\'"abi"\'), 0)': abiIsParsed,
    '\'"abi"\' => ""': abiIsParsed,
    'at + longestAbiHead => at - longestAbiHead': abiIsParsed,
    'address === undefined => true': abiIsParsed,
    ...Object.fromEntries(
      abiHeadMutants.map(([part, mutant]) => [`${abiHead} => ${abiHead.replace(part, () => mutant)}`, abiIsParsed]),
    ),
    'byte === undefined => false': 'an absent byte ends no number, so the loop ends without a list',
    '/^(0x[\\da-f]+)\\/(\\d+)(?:\\?|$)/ => /(0x[\\da-f]+)\\/(\\d+)(?:\\?|$)/':
      'a subject begins with its only address ahead of a slash',
    '\'\' => "Stryker was here!"': 'for types alone: a stream with an address has a number',
  },
  'src/proxy/reads/policy.ts': {
    'height === undefined => false': 'for types alone: undefined is below no height',
    'version !== undefined => true': 'for types alone: undefined is at or below no head',
  },
  'src/ledger/lib/circuit.ts': {
    'this.#cause === undefined => false': 'for types alone: no cause has no number of its own',
    'this.#inARow.size > 0 => true': shortcut,
    'this.#inARow.size > 0 => this.#inARow.size >= 0': shortcut,
  },
  'src/ledger/json-value.ts': {
    '/^[ !#-[\\]-~]*$/ => /^[ !#-[\\]-~]$/': shortcut,
    "value === '' => false": shortcut,
    '\'\' => "Stryker was here!"': shortcut,
    'start > opening + 1 => true': 'spares strings without an escape, which are UTF-8',
    'start > opening + 1 => start >= opening + 1': 'spares strings without an escape, which are UTF-8',
    'opening + 1 => opening - 1': 'spares strings without an escape, which are UTF-8',
  },
  'src/proxy/reads/staleness.ts': {
    'overrides.length === 0 => false': shortcut,
    'ofRead < ofPlan => ofRead <= ofPlan': equal,
    'matched?.list === list => false': shortcut,
    '{ list, override } => {}': shortcut,
    "operation === 'view' && subject !== undefined => true": viewsAlone,
    "operation === 'view' && subject !== undefined => operation === 'view' || subject !== undefined": viewsAlone,
    "operation === 'view' => true": viewsAlone,
    'subject !== undefined => true': 'for types alone: undefined names no function',
    '/^json:\\{"function":"([^"]+)"/ => /json:\\{"function":"([^"]+)"/': viewsAlone,
  },
  'src/proxy/reads/demand.ts': {
    '\'\' => "Stryker was here!"': 'a text without unit is refused as well',
    '[] => ["Stryker was here"]': 'without a match there is no number',
    'seen !== undefined => true': 'for types alone: undefined is above no version',
    'seen > asked => seen >= asked': equal,
  },
  'src/proxy/routes/parse-history.ts': {
    '[] => ["Stryker was here"]': noSuchName,
    'startText === undefined => false': 'for types alone: undefined is no u64',
    'limitText === undefined => false': 'for types alone: undefined is no u64',
    'startText !== undefined && start === undefined => false': '`newestList` knows no start either',
    'given === undefined => false': '`newestList` leaves unknown parameters to nodes as well',
    'text === undefined => false': 'for types alone: undefined is no u64',
  },
  'src/proxy/routes/parse-read.ts': {
    'cached !== undefined => false': shortcut,
    'contentType === undefined => false': 'for types alone: undefined is no media type',
    'copy === spelling => false': 'the memory of the cache alone',
    'own === copy && own.length <= longestCached => true': cacheAlone,
    'own === copy && own.length <= longestCached => false': cacheAlone,
    'own === copy && own.length <= longestCached => own === copy || own.length <= longestCached': cacheAlone,
    'own === copy => true': cacheAlone,
    'own === copy => own !== copy': cacheAlone,
    'own.length <= longestCached => true': cacheAlone,
    'own.length <= longestCached => own.length < longestCached': cacheAlone,
    'own.length <= longestCached => own.length > longestCached': cacheAlone,
    '\'\' => "Stryker was here!"': 'for types alone: a path has the parameters of its route',
  },
  'src/upstream/dispatch/classify.ts': {
    'answer.status < 300 => false': 'spares a success the look into its body; the default is final as well',
    'answer.status < 300 => answer.status <= 300': 'the default is final as well',
    '\'\' => "Stryker was here!"': equal,
    'answer.status > 500 => answer.status >= 500': '500 has a case of its own',
    "need.kind === 'version' => true": 'for types alone: undefined is above no version',
    "need.kind === 'block' => true": 'for types alone: undefined is above no height',
    'body === undefined => false': bodyAndJson,
    'json === undefined => false': bodyAndJson,
    'body === undefined || json === undefined => body === undefined && json === undefined': bodyAndJson,
    "typeof value !== 'string' => false": 'for types alone: an absent or repeated value has neither form',
  },
  'src/upstream/dispatch/plan.ts': {
    'lastTried?.name => lastTried.name': 'for types alone: each attempt is recorded with its node',
    'version !== undefined => true': 'for types alone: a wait is for a version',
    'repeated === undefined => false': shortcut,
    '{ isLast } => {}': 'a repeat precedes the last attempt, or follows a miss, which leaves it to the deepest as well',
    'last === undefined || lastAsked === undefined => last === undefined && lastAsked === undefined': recordedTogether,
    'last === undefined => false': recordedTogether,
    'lastAsked === undefined => false': recordedTogether,
    'version === undefined => false': 'for types alone: no head reaches undefined, and no wait is without a version',
    "last.kind === 'failed' => true": 'for types alone: only a failure has a sign',
    "need.kind === 'version' || need.kind === 'head' => true": 'for types alone: no other need has `isChosen`',
    'candidatesOf(fleet, performance.now(), need).filter(({ isDrained }) => isDrained === true) => candidatesOf(fleet, performance.now(), need)':
      othersAreKnown,
    'isDrained === true => true': othersAreKnown,
    "need.kind === 'head' && need.min !== undefined => true": noHeadBelow,
    "need.kind === 'head' && need.min !== undefined => need.kind === 'head' || need.min !== undefined": noHeadBelow,
    "need.kind === 'head' => true": noHeadBelow,
    'need.min !== undefined => true': noHeadBelow,
  },
  'src/upstream/node/circuits.ts': {
    '\'refused\' => ""': 'a deferral has one cause, which nothing shows',
    '-Infinity => +Infinity': 'nothing is named before, so the longer wait is the new one',
  },
  'src/upstream/client-floors.ts': {
    'before !== undefined => true': 'for types alone: undefined is at or above no version',
    'version < this.#least => version <= this.#least': equal,
    'version > this.#newest => version >= this.#newest': equal,
    'this.#least === undefined || this.#newest === undefined => false': noFloors,
    'this.#least === undefined || this.#newest === undefined => this.#least === undefined && this.#newest === undefined':
      noFloors,
    'this.#least === undefined => false': noFloors,
    'this.#newest === undefined => false': noFloors,
  },
  'src/upstream/shared-states.ts': {
    '[] => ["Stryker was here"]': 'bounds are followed before the first read',
    'bounds === this.#bounds => false': shortcut,
    'false => true': 'whoever sets the state sets whose it is',
    'lane.offered !== undefined => true': shortcut,
    'state.info.version < least => state.info.version <= least': equal,
    'info.version > known => info.version >= known': equal,
    'inMs < next => inMs <= next': equal,
    'offered === undefined => false': 'for types alone: callers have an offered state',
    'offered.version <= state.info.version => offered.version < state.info.version': 'a version has one state',
    'newest === state => false': shortcut,
    'other !== undefined => true': 'for types alone: undefined is above no version',
    'other > one => other >= one': equal,
    'state.info.version > than.info.version => state.info.version >= than.info.version':
      'equal versions are compared by time before',
  },
  'src/upstream/select/ranking.ts': {
    "need.kind === 'block' => true": 'for types alone: no other need has a height',
    "need.kind === 'head' => true": 'no other need asks for the freshest, or has a least version',
    "need.kind === 'transaction' => true": 'for types alone: no other need has a submission',
    '\'holding\' => ""': 'shown after a miss for transactions alone, which have no position to hold',
  },
  'src/upstream/select/pick.ts': {
    'asked.size === 0 => false': shortcut,
    "anyPruned && need.kind === 'head' => true": sparesSearch,
    "anyPruned && need.kind === 'head' => anyPruned || need.kind === 'head'": sparesSearch,
    "need.kind === 'head' => true": sparesSearch,
    'best >= prunedScore => best > prunedScore': 'the holding of such a node adds to its score',
    'nodes.length < 2 || nodes.every(isBetter) => false': shortcut,
    'nodes.length < 2 || nodes.every(isBetter) => nodes.length < 2 && nodes.every(isBetter)': shortcut,
    'most <= least * depthTolerance => most < least * depthTolerance': shortcut,
    'least * depthTolerance => least / depthTolerance': shortcut,
    "need.kind !== 'transaction' => true": missIsMiss,
    '\'transaction\' => ""': missIsMiss,
    'nodes.length < 2 => false': shortcut,
    'most <= least * depthTolerance => false': shortcut,
    '() => 0 => () => undefined': 'the nodes are in order of cost already',
    'last === undefined => false': 'for types alone: without a node of this chain there is no refusal',
    'a.window.oldest < b.window.oldest => a.window.oldest <= b.window.oldest': 'equal edges are compared before',
    '[] => ["Stryker was here"]': 'the first node replaces it',
    'first === undefined => false': typesAlone,
  },
  'src/proxy/http/target.ts': {
    "target.startsWith('/') => false": shortcut,
    '\'\' => "Stryker was here!"': 'for types alone: a match has its groups',
    '[] => ["Stryker was here"]': 'without a match there is no authority',
  },
  'src/proxy/routes/target.ts': {
    'version !== undefined => false': shortcut,
    "query === '' => false": shortcut,
    "!path.includes('%') => false": plainPath,
    '\'%\' => ""': plainPath,
    '/^ledger_version=(\\d{1,20})$/ => /^ledger_version=(\\d)$/': shortcut,
    '/^ledger_version=(\\d{1,20})$/ => /^ledger_version=(\\D{1,20})$/': shortcut,
    '\'\' => "Stryker was here!"': 'for types alone: a text that is split has a first part, and a match its groups',
    'text === null => false': 'for types alone: null is no u64',
  },
  'src/upstream/node/retention-window.ts': {
    'this.#olderSinceMs !== undefined => true': 'for types alone: no time is later than undefined',
    '\'versions\' => ""': 'another unit than blocks counts versions',
    'shown > deepest.oldestVersion => shown >= deepest.oldestVersion': equal,
    'shown > shallowest.oldestVersion => shown >= shallowest.oldestVersion': equal,
    'part < farthestMove => part <= farthestMove': equal,
    'samples[0]?.atMs => samples[0].atMs': 'for types alone: there is the sample just pushed',
    'first === undefined || last === undefined => false': 'for types alone: there is a sample',
    'first === undefined || last === undefined => first === undefined && last === undefined':
      'for types alone: there is a sample',
    'first === undefined => false': 'for types alone: there is a sample',
    'last === undefined => false': 'for types alone: there is a sample',
  },
};
