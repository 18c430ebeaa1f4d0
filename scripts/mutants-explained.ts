/**
 * Mutants that no test can kill, or that none should, with the reason: by file, and by mutated text and replacement as
 * `npm run mutate` prints them. A text that a file has several times is explained for the lines given alone.
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
const knownTogether = 'for types alone: the node and its head are known together';
const holdsNothing = 'spares the lists the question; no list holds the empty text, or an empty list anything';
const groupsAhead = 'only the first four of eight groups are shown';
const zerosOf =
  "const zeros = plain.includes('::') ? Array.from({ length: 8 - first.length - last.length }, () => '0') : [];";
const aboveNothing = 'for types alone: undefined is above and below no version';
const ifProvided = 'return version !== undefined && this.#isProvided(version) ? version : undefined;';
const aboveHead = [
  'if (this.#head !== undefined && version > this.#head) return;',
  'return version !== undefined && this.#head !== undefined && version > this.#head;',
];
const cacheOfHeaders = 'what the cache of headers holds, which is a shortcut';
const textAlone = 'a text of the log or the status page alone';
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

type Explanation = string | { readonly reason: string; readonly lines: readonly string[] };

export const explained: Readonly<Record<string, Readonly<Record<string, Explanation>>>> = {
  'src/upstream/fleet-ledger.ts': {
    'info.timestampUsec < before.timestampUsec => info.timestampUsec <= before.timestampUsec': equal,
    'isOut(upstream) => true': {
      reason: 'the loss of the node of a head sets it again',
      lines: ['if (isOut(upstream)) this.#orphanedAtMs = nowMs;'],
    },
    'source === undefined => false': 'for types alone: undefined has not gone back',
    'false => true': {
      reason: 'the first head sets whether it is proven, and a node without a report is never the freshest',
      lines: ['#isProven = false;', 'if (head === undefined || info === undefined) return false;'],
    },
    '-Infinity => +Infinity': {
      reason: 'the loss of the node of a head sets it',
      lines: ['#orphanedAtMs = -Infinity;'],
    },
    'this.second?.window.info?.version => this.second?.window.info.version':
      'for types alone: the freshest node has a report',
    'head === undefined => false': {
      reason: 'for types alone: the reports of others have made a head',
      lines: [
        'if (head === undefined || info === undefined) return false;',
        'if (head === undefined || upstream !== this.source || others.some((other) => other.head >= head.version)) return;',
      ],
    },
    '\'upstream reports another chain: it is not asked\' => ""': textAlone,
    '\'the chain is that of most nodes: chainId in the config pins it\' => ""': textAlone,
    '\'the ledger went back: cached answers are dropped\' => ""': textAlone,
    '\'upstream reports a head that other nodes contradict: it is asked last\' => ""': textAlone,
    'this.head?.version => this.head.version':
      'for types alone: a generation begins with the report of the node that speaks',
  },
  'src/upstream/fleet-state.ts': {
    'true => false': { reason: 'no view precedes the first one', lines: ['#isViewStale = true;'] },
    'false => true': { reason: shortcut, lines: ['this.#isViewStale = false;'] },
    '\'the dialect is that of most nodes: dialect pins it\' => ""': textAlone,
    '\'upstream reports a lower ledger version than before\' => ""': textAlone,
    '\'nodes report another history of the ledger than before: cached answers are dropped\' => ""': textAlone,
    '\'no node answers any more: only pinned answers in the cache are served\' => ""': textAlone,
    '\'a node answers again\' => ""': textAlone,
    '\'the oldest versions can be read again\' => ""': textAlone,
    '\'versions cannot be read: the nodes that hold them are away\' => ""': textAlone,
    'one.from < other.from => one.from <= other.from': equal,
    'before !== undefined && !this.#isViewStale => false': shortcut,
    'before !== undefined => true': 'no view precedes the first one, which is due',
    'before !== undefined => before === undefined': shortcut,
    'oldest === undefined => false':
      'for types alone: where no node serves the oldest version, the head is in its place',
    'second === undefined || confirmed === undefined => second === undefined && confirmed === undefined': knownTogether,
    'second === undefined => false': knownTogether,
    'confirmed === undefined => false': knownTogether,
    'isItsChain ? before !== chainId : before === undefined => true': shortcut,
    'before !== chainId => true': shortcut,
    'before === undefined => true': shortcut,
    '!wasSuspect && known !== undefined && known.version <= info.version => false': shortcut,
    'known.version <= info.version => known.version < info.version': shortcut,
    'hasMovedOn && info.version <= (this.ledger.confirmed ?? -1n) => false': shortcut,
    'info.version <= (this.ledger.confirmed ?? -1n) => info.version < (this.ledger.confirmed ?? -1n)': shortcut,
    'this.ledger.confirmed ?? -1n => this.ledger.confirmed && -1n': shortcut,
    'isNews && !isBelow => true': shortcut,
    'isNews && !isBelow => isNews || !isBelow': shortcut,
    'window.info?.version => window.info.version': 'for types alone: a report is lower than another one',
    'version < this.#nearest => version <= this.#nearest': equal,
    'this.#nearest === undefined || reached < this.#nearest => false': shortcut,
    'this.#nearest === undefined || reached < this.#nearest => this.#nearest === undefined && reached < this.#nearest':
      shortcut,
    'this.#nearest === undefined => false': {
      reason: 'for types alone: without a waiter no loop runs',
      lines: ['if (this.#nearest === undefined || reached < this.#nearest) return;'],
    },
    'reached < this.#nearest => false': shortcut,
    'waiter.version <= reached => true': shortcut,
    'waiter.version < nearest => waiter.version <= nearest': equal,
  },
  'src/upstream/contradictions.ts': {
    'claim.timestampUsec < nowUsec => claim.timestampUsec <= nowUsec': equal,
    'lag < 0n => lag <= 0n': equal,
    'lag > longestLagUsec => lag >= longestLagUsec': equal,
    'hint !== undefined => true': 'for types alone: `undefined` is in no range',
    'elected === undefined => false': 'for types alone: `undefined` has no votes',
  },
  'src/cache/kinds.ts': {
    '\'history\' => ""': {
      reason: 'decisions ask for `state`; `explain` alone shows the other class',
      lines: [
        "transaction: { class: 'history', accounts: 'none' },",
        "by_version: { class: 'history', accounts: 'none' },",
        "transactions: { class: 'history', accounts: 'none', isList: true },",
        "auxiliary_info: { class: 'history', accounts: 'none', isList: true },",
        "block: { class: 'history', accounts: 'none', isList: true },",
        "block_by_version: { class: 'history', accounts: 'none' },",
        "events: { class: 'history', accounts: 'own' },",
      ],
    },
    "{ class: 'history', accounts: 'none' } => {}": {
      reason: 'the default of each decision',
      lines: [
        "transaction: { class: 'history', accounts: 'none' },",
        "by_version: { class: 'history', accounts: 'none' },",
        "block_by_version: { class: 'history', accounts: 'none' },",
      ],
    },
  },
  'src/access/keys/client-address.ts': {
    "this.#texts.length === 0 || address === '' => false": holdsNothing,
    "this.#texts.length === 0 || address === '' => this.#texts.length === 0 && address === ''": holdsNothing,
    'this.#texts.length === 0 => false': holdsNothing,
    "address === '' => false": holdsNothing,
    'address !== plain => true': 'an IPv4 address without bits has 32 of them either way',
    'end > 0 => end >= 0': 'an empty entry is no address',
    'text !== last => true': shortcut,
    "right === '' => false": groupsAhead,
    '\'::\' => ""': { reason: groupsAhead, lines: [zerosOf] },
    '[] => ["Stryker was here"]': {
      reason: groupsAhead,
      lines: ["const last = right === '' ? [] : right.split(':');", zerosOf],
    },
    '\'\' => "Stryker was here!"': {
      reason: 'no text is an address either way, or none is absent there, or it is behind the groups that are shown',
      lines: [
        "if (this.#texts.length === 0 || address === '') return false;",
        "const [address = '', given] = text.split('/');",
        "let address = plainAddress(connection ?? '') ?? '';",
        "let result = '';",
        "const [left = '', right = ''] = plain.split('::');",
        "const last = right === '' ? [] : right.split(':');",
        "const [high, low] = [Number.parseInt(mapped[1] ?? '', 16), Number.parseInt(mapped[2] ?? '', 16)];",
      ],
    },
  },
  'src/cache/purge.ts': {
    '\'*\' => ""': 'any text that is no address',
    '/^(read|versions|account) (.+)$/s => /^(read|versions|account) (.+)/s': 'the text is taken to its end',
    '/^(.+)@(\\d{1,4})$/s => /(.+)@(\\d{1,4})$/s': 'the text is taken from its start',
    '\'\' => "Stryker was here!"': {
      reason: 'a text of no other form either',
      lines: [
        "const [, kind = '', rest = ''] = /^(read|versions|account) (.+)$/s.exec(text) ?? [];",
        "const [, chainId, hex = ''] = /^(\\d{1,3}) (0x[0-9a-f]{1,64})$/.exec(rest) ?? [];",
      ],
    },
    '[] => ["Stryker was here"]': {
      reason: 'without a match there is no part of the scope',
      lines: [
        "const [, kind = '', rest = ''] = /^(read|versions|account) (.+)$/s.exec(text) ?? [];",
        'const [, page, slot] = /^(.+)@(\\d{1,4})$/s.exec(rest) ?? [];',
        "const [, chainId, hex = ''] = /^(\\d{1,3}) (0x[0-9a-f]{1,64})$/.exec(rest) ?? [];",
      ],
    },
    "kind === 'account' => true": 'for types alone: without a kind there is no rest',
    'steps.at(-1)?.isStoreClear => steps.at(-1).isStoreClear': 'for types alone: there is a step',
  },
  'src/ledger/version.ts': {
    'text.length <= safeDigits && onlyDigits.test(text) => false': shortcut,
    'text.length <= safeDigits => text.length < safeDigits': shortcut,
    '/^\\d+$/ => /^\\d$/': shortcut,
  },
  'src/ledger/lib/near-miss.ts': {
    'word.toLowerCase() => word.toUpperCase()': 'either is one case',
    '[] => ["Stryker was here"]': {
      reason: 'no letter is ahead of the first',
      lines: ['let beforeLast: number[] = [];'],
    },
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
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: a group of a match, or no match and no number',
      lines: [
        "const [, born = '', number = '', root = '', rest = ''] = form.exec(text) ?? [];",
        "const [earlier = '', upTo = ''] = part.split('@');",
      ],
    },
    '[] => ["Stryker was here"]': {
      reason: 'no number either way',
      lines: ["const [, born = '', number = '', root = '', rest = ''] = form.exec(text) ?? [];"],
    },
    'version === undefined => false': {
      reason: 'undefined is at or below no version',
      lines: ['if (version === undefined) return id;'],
    },
    'head !== undefined => true': 'for types alone: undefined is at or above no version',
  },
  'src/proxy/reads/asked-content.ts': {
    '[] => ["Stryker was here"]': {
      reason: 'without a match there is no name and no address',
      lines: [
        "const [, name, text] = firstMember.exec(body.toString('latin1', 0, 1024)) ?? [];",
        "const [, address, name] = abiHead.exec(body.toString('latin1', at, at + longestAbiHead)) ?? [];",
        "const [, address, number = ''] = stream.exec(subject) ?? [];",
      ],
    },
    "typeof value === 'number' => true": 'for types alone: no other value is an integer',
    '!isText(type) => false': 'for types alone: no other value is a tag',
    'type === asked => false': shortcut,
    'value === asked => false': shortcut,
    'creation === number => false': shortcut,
    'Math.max(body.indexOf(\'"abi"\'), 0) => Math.min(body.indexOf(\'"abi"\'), 0)': abiIsParsed,
    '\'"abi"\' => ""': abiIsParsed,
    'at + longestAbiHead => at - longestAbiHead': abiIsParsed,
    'address === undefined => true': {
      reason: abiIsParsed,
      lines: ["return address === undefined ? membersOf(JSON.parse(body.toString()))['abi'] : { address, name };"],
    },
    ...Object.fromEntries(
      abiHeadMutants.map(([part, mutant]) => [`${abiHead} => ${abiHead.replace(part, () => mutant)}`, abiIsParsed]),
    ),
    'byte === undefined => false': 'an absent byte ends no number, so the loop ends without a list',
    '/^(0x[\\da-f]+)\\/(\\d+)(?:\\?|$)/ => /(0x[\\da-f]+)\\/(\\d+)(?:\\?|$)/':
      'a subject begins with its only address ahead of a slash',
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: a stream with an address has a number',
      lines: ["const [, address, number = ''] = stream.exec(subject) ?? [];"],
    },
  },
  'src/proxy/reads/policy.ts': {
    'height === undefined => false': 'for types alone: undefined is below no height',
    'version !== undefined => true': {
      reason: 'for types alone: undefined is at or below no head',
      lines: ["return version !== undefined && version <= head ? 'stored' : 'not committed';"],
    },
  },
  'src/ledger/lib/circuit.ts': {
    'this.#cause === undefined => false': 'for types alone: no cause has no number of its own',
    'this.#inARow.size > 0 => true': shortcut,
    'this.#inARow.size > 0 => this.#inARow.size >= 0': shortcut,
  },
  'src/ledger/json-value.ts': {
    '/^[ !#-[\\]-~]*$/ => /^[ !#-[\\]-~]$/': shortcut,
    "value === '' => false": shortcut,
    '\'\' => "Stryker was here!"': { reason: shortcut, lines: ["value = value === '' ? plain : value + plain;"] },
    'start > opening + 1 => true': 'spares strings without an escape, which are UTF-8',
    'start > opening + 1 => start >= opening + 1': 'spares strings without an escape, which are UTF-8',
    'opening + 1 => opening - 1': {
      reason: 'spares strings without an escape, which are UTF-8',
      lines: ['if (this.#isForNodes && start > opening + 1 && !value.isWellFormed()) {'],
    },
  },
  'src/proxy/reads/demand.ts': {
    'overrides.length === 0 => false': shortcut,
    'ofRead < ofPlan => ofRead <= ofPlan': equal,
    'matched?.list === list => false': shortcut,
    '{ list, override } => {}': shortcut,
    "operation === 'view' && subject !== undefined => true": viewsAlone,
    "operation === 'view' && subject !== undefined => operation === 'view' || subject !== undefined": viewsAlone,
    "operation === 'view' => true": viewsAlone,
    'subject !== undefined => true': 'for types alone: undefined names no function',
    '/^json:\\{"function":"([^"]+)"/ => /json:\\{"function":"([^"]+)"/': viewsAlone,
    '\'\' => "Stryker was here!"': {
      reason: 'a text without unit is refused as well',
      lines: ["const [, number = '', unit] = /^(\\d{1,9})(ms|s|m)?$/.exec(text.trim()) ?? [];"],
    },
    '[] => ["Stryker was here"]': 'without a match there is no number',
    'seen !== undefined => true': 'for types alone: undefined is above no version',
    'seen > asked => seen >= asked': equal,
  },
  'src/proxy/routes/parse-history.ts': {
    '[] => ["Stryker was here"]': {
      reason: noSuchName,
      lines: [
        'if (version === undefined || knownParameters(request.target, []) === undefined) return undefined;',
        'knownParameters(target, []) === undefined ? undefined : sharedRead(shared, path, accept);',
      ],
    },
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: no u64 either',
      lines: ["found[number] = findU64(given[number] ?? '');"],
    },
  },
  'src/proxy/routes/parse-read.ts': {
    'startText === undefined => false': 'for types alone: undefined is no start',
    'limitText === undefined => false': 'for types alone: undefined is no u64',
    'cached !== undefined => false': shortcut,
    'version !== undefined => false': shortcut,
    "query === '' => false": {
      reason: shortcut,
      lines: ["if (query === '') return undefined;", "if (query === '') return {};"],
    },
    '/^ledger_version=(\\d{1,20})$/ => /^ledger_version=(\\d)$/': shortcut,
    '/^ledger_version=(\\d{1,20})$/ => /^ledger_version=(\\D{1,20})$/': shortcut,
    'contentType === undefined => false': {
      reason: 'for types alone: undefined is no media type',
      lines: [
        'if (contentType === undefined || !contentTypes.has(contentType)) throw unsupportedContentType(contentType);',
        'if (contentType === undefined || !jsonForm.test(contentType)) throw unsupportedContentType(contentType);',
      ],
    },
    'copy === spelling => false': 'the memory of the cache alone',
    'own === copy && own.length <= longestCached => true': cacheAlone,
    'own === copy && own.length <= longestCached => false': cacheAlone,
    'own === copy && own.length <= longestCached => own === copy || own.length <= longestCached': cacheAlone,
    'own === copy => true': cacheAlone,
    'own === copy => own !== copy': cacheAlone,
    'own.length <= longestCached => true': cacheAlone,
    'own.length <= longestCached => own.length < longestCached': cacheAlone,
    'own.length <= longestCached => own.length > longestCached': cacheAlone,
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: a path has the parameters of its route',
      lines: [
        "export function resourceRead({ address: addressText = '', type = '' }: Parameters, request: PathRead): Read {",
        "export function moduleRead({ address: addressText = '', name = '' }: Parameters, request: PathRead): Read {",
        "{ hash: hashText = '' }: Parameters,",
        "export const accountRead: ParseRead = ({ address: addressText = '' }, request) => {",
        "export const balanceRead: ParseRead = ({ address: addressText = '', asset: assetText = '' }, request) => {",
        "return ({ address: addressText = '' }, request) => {",
        "{ handle: handleText = '' }: Parameters,",
        "if (query === '') return undefined;",
        "if (query === '') return {};",
      ],
    },
  },
  'src/upstream/dispatch/classify.ts': {
    'answer.status < 300 => false': 'spares a success the look into its body; the default is final as well',
    'answer.status < 300 => answer.status <= 300': 'the default is final as well',
    '\'\' => "Stryker was here!"': {
      reason: equal,
      lines: [
        "if (need.kind === 'version' && aboveHead.has(error?.code ?? '')) return 'behind';",
        "return typeof code === 'string' ? { code, message: typeof message === 'string' ? message : '' } : undefined;",
        "const isOfNode = info !== undefined || sheddingCodes.has(code ?? '');",
      ],
    },
    'answer.status > 500 => answer.status >= 500': '500 has a case of its own',
    "need.kind === 'version' => true": {
      reason: 'for types alone: undefined is above no version',
      lines: ["if (need.kind === 'version' && need.version > answer.info.version) return 'version not reached';"],
    },
    "need.kind === 'block' => true": {
      reason: 'for types alone: undefined is above no height',
      lines: ["if (need.kind === 'block' && need.height > answer.info.blockHeight) return 'version not reached';"],
    },
    'body === undefined => false': {
      reason: bodyAndJson,
      lines: ["if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';"],
    },
    'json === undefined => false': {
      reason: bodyAndJson,
      lines: ["if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';"],
    },
    'body === undefined || json === undefined => body === undefined && json === undefined': bodyAndJson,
    "typeof value !== 'string' => false": 'for types alone: an absent or repeated value has neither form',
  },
  'src/upstream/dispatch/plan.ts': {
    'lastTried?.name => lastTried.name': 'for types alone: each attempt is recorded with its node',
    'version !== undefined => true': {
      reason: 'for types alone: a wait is for a version',
      lines: ["if (after === 'wait' && version !== undefined) {"],
    },
    'repeated === undefined => false': shortcut,
    '{ isLast } => {}': {
      reason: 'a repeat precedes the last attempt, or follows a miss, which leaves it to the deepest as well',
      lines: ['return pick(nodes, need, { asked: others, prunedAt, anyPruned, bestAnswer }, { isLast });'],
    },
    'last === undefined || lastAsked === undefined => last === undefined && lastAsked === undefined': recordedTogether,
    'last === undefined => false': {
      reason: recordedTogether,
      lines: ['if (last === undefined || lastAsked === undefined || history.isRepeating) return undefined;'],
    },
    'lastAsked === undefined => false': recordedTogether,
    'version === undefined => false': 'for types alone: no head reaches undefined, and no wait is without a version',
    "last.kind === 'failed' => true": {
      reason: 'for types alone: only a failure has a sign',
      lines: ["const hasErred = last.kind === 'failed' && last.sign === 'error';"],
    },
    "need.kind === 'version' || need.kind === 'head' => true": 'for types alone: no other need has `isChosen`',
    'candidatesOf(fleet, performance.now(), need).filter(({ isDrained }) => isDrained === true) => candidatesOf(fleet, performance.now(), need)':
      othersAreKnown,
    'isDrained === true => true': othersAreKnown,
    "need.kind === 'head' && need.min !== undefined => true": noHeadBelow,
    "need.kind === 'head' && need.min !== undefined => need.kind === 'head' || need.min !== undefined": noHeadBelow,
    "need.kind === 'head' => true": {
      reason: noHeadBelow,
      lines: ["if (need.kind === 'head' && need.min !== undefined && head < need.min)"],
    },
    'need.min !== undefined => true': noHeadBelow,
  },
  'src/upstream/node/limits.ts': {
    'false => true': {
      reason: 'before the first decision no answer is slow, and the bound is the most',
      lines: ['#isOwnDoing = false;'],
    },
    '() => 0 => () => undefined': 'neither is late',
    'usualMs !== undefined => true': 'for types alone: no time is above one of undefined',
    'median < usual => median <= usual': equal,
  },
  'src/upstream/node/circuits.ts': {
    '\'refused\' => ""': {
      reason: 'a deferral has one cause, which nothing shows',
      lines: [
        "const pauseMs = this.#circuit.fail('refused', sentAtMs, nowMs);",
        "this.#circuit.hold('refused', longestMs, heldGapMs, nowMs);",
      ],
    },
    '-Infinity => +Infinity': {
      reason: 'nothing is named before, so the longer wait is the new one',
      lines: ['#namedAtMs = -Infinity;'],
    },
  },
  'src/upstream/latest.ts': {
    '\'snapshot\' => ""': 'a name in traces alone',
    'floor === undefined => false': {
      reason: 'for types alone: without a floor its client has seen nothing',
      lines: ['if (floor === undefined || floor === min) return ask(floor, false);'],
    },
    'wanted !== undefined => true': aboveNothing,
    'wanted < newest => wanted <= newest': equal,
    'this.#head !== undefined => true': { reason: aboveNothing, lines: aboveHead },
    'version !== undefined && this.#head !== undefined => true': aboveNothing,
    'version !== undefined => true': { reason: aboveNothing, lines: [ifProvided, ...aboveHead] },
    'got !== undefined => true': aboveNothing,
    'passed !== undefined => true': {
      reason: 'for types alone: no version is up to undefined, and a state is shared',
      lines: [
        'if (passed !== undefined && version <= passed) return false;',
        'if (passed !== undefined) this.#floors.forgetUpTo(passed);',
      ],
    },
    'boundMs === undefined => false': 'for types alone: no bound is within undefined',
    'upstream.head > (newest?.head ?? -1n) => upstream.head >= (newest?.head ?? -1n)': 'nodes at one head are as good',
    'newest === undefined || info === undefined => newest === undefined && info === undefined': knownTogether,
    'newest === undefined => false': knownTogether,
    'info === undefined => false': {
      reason: knownTogether,
      lines: ['if (newest === undefined || info === undefined) throw error;'],
    },
    'head > newest => head >= newest': equal,
  },
  'src/upstream/ledger-wide-headers.ts': {
    '\'node\' => ""': 'any name but that of the other dialect',
    '\'headers of an upstream are left out: they exceed the bounds\' => ""': textAlone,
    'names.length === 0 => false': shortcut,
  },
  'src/upstream/node/ledger-identity.ts': {
    'lookSentAtMs !== undefined => true': {
      reason: 'for types alone: undefined is after no time',
      lines: ['else if (lookSentAtMs !== undefined && lookSentAtMs >= doubt.sinceMs) return this.settle(chainId);'],
    },
    '\'\' => "Stryker was here!"': {
      reason: 'the name of the client whose turns parse the body',
      lines: ["const hash = (await JsonBody.skim(body, ''))?.members['hash'];"],
    },
    "typeof hash === 'string' => true": 'for types alone: no other value has the form of a hash',
  },
  'src/upstream/floors.ts': {
    'before !== undefined => true': 'for types alone: undefined is at or above no version',
    'version < this.#least => version <= this.#least': {
      reason: equal,
      lines: [
        'if (this.#least === undefined || version < this.#least) this.#least = version;',
        'if (this.#least !== undefined && version < this.#least) this.#least = version;',
      ],
    },
    'version > this.#newest => version >= this.#newest': equal,
    'this.#least === undefined || this.#newest === undefined => false': noFloors,
    'this.#least === undefined || this.#newest === undefined => this.#least === undefined && this.#newest === undefined':
      noFloors,
    'this.#least === undefined => false': {
      reason: noFloors,
      lines: ['if (this.#least === undefined || this.#newest === undefined || version < this.#least) return;'],
    },
    'this.#newest === undefined => false': {
      reason: noFloors,
      lines: ['if (this.#least === undefined || this.#newest === undefined || version < this.#least) return;'],
    },
  },
  'src/upstream/shared-states.ts': {
    '[] => ["Stryker was here"]': {
      reason: 'bounds are followed before the first read',
      lines: ['#lanes: readonly Lane[] = [];', '#bounds: readonly number[] = [];'],
    },
    'bounds === this.#bounds => false': shortcut,
    'false => true': {
      reason: 'whoever sets the state sets whose it is',
      lines: ['const lane = { boundMs, state: undefined, offered: undefined, askedAtMs: -Infinity, isOwn: false };'],
    },
    'lane.offered !== undefined => true': {
      reason: shortcut,
      lines: [
        'if (lane.offered !== undefined) {',
        'for (const lane of this.#lanes) if (lane.offered !== undefined) this.#accept(lane);',
      ],
    },
    'state.info.version < least => state.info.version <= least': equal,
    'info.version > known => info.version >= known': equal,
    'inMs < next => inMs <= next': equal,
    'offered === undefined => false': 'for types alone: callers have an offered state',
    'offered.version <= state.info.version => offered.version < state.info.version': 'a version has one state',
    'other !== undefined => true': 'for types alone: undefined is above no version',
    'other > one => other >= one': equal,
    'state.info.version > than.info.version => state.info.version >= than.info.version':
      'equal versions are compared by time before',
  },
  'src/upstream/select/ranking.ts': {
    "need.kind === 'block' => true": {
      reason: 'for types alone: no other need has a height',
      lines: ["return need.kind === 'block' ? need.height : undefined;"],
    },
    "need.kind === 'head' => true": {
      reason: 'no other need asks for the freshest, or has a least version',
      lines: ["return need.kind === 'head' ? need.min : undefined;", "if (need.kind === 'head')"],
    },
    "need.kind === 'transaction' => true": 'for types alone: no other need has a submission',
  },
  'src/upstream/select/first-choice.ts': {
    'other === one => false': shortcut,
    'node?.isFull => node.isFull': 'for types alone: a shortlist has nodes',
    'trusted[0]?.weight => trusted[0].weight': 'for types alone: there is one in the loop',
    'window.safeOldest > from => window.safeOldest >= from': equal,
    'window.head < to => window.head <= to': equal,
    'to === undefined => false': {
      reason: 'for types alone: without trusted nodes none is drawn',
      lines: ['if (to === undefined) return undefined;'],
    },
  },
  'src/upstream/select/pick.ts': {
    'asked.size === 0 => false': shortcut,
    "anyPruned && need.kind === 'head' => true": {
      reason: sparesSearch,
      lines: ["const last = anyPruned && need.kind === 'head' ? deepestUnasked(nodes, prunedAt) : undefined;"],
    },
    "anyPruned && need.kind === 'head' => anyPruned || need.kind === 'head'": {
      reason: sparesSearch,
      lines: ["const last = anyPruned && need.kind === 'head' ? deepestUnasked(nodes, prunedAt) : undefined;"],
    },
    "need.kind === 'head' => true": {
      reason: sparesSearch,
      lines: ["const last = anyPruned && need.kind === 'head' ? deepestUnasked(nodes, prunedAt) : undefined;"],
    },
    'best >= prunedScore => best > prunedScore': 'the holding of such a node adds to its score',
    'nodes.length < 2 || nodes.every(isBetter) => false': shortcut,
    'nodes.length < 2 || nodes.every(isBetter) => nodes.length < 2 && nodes.every(isBetter)': shortcut,
    'most <= least * depthTolerance => most < least * depthTolerance': shortcut,
    'least * depthTolerance => least / depthTolerance': {
      reason: shortcut,
      lines: ['if (most <= least * depthTolerance) return nodes;'],
    },
    "need.kind !== 'transaction' => true": missIsMiss,
    '\'transaction\' => ""': {
      reason: missIsMiss,
      lines: ["const anyPruned = prunedAt.size > 0 && need.kind !== 'transaction';"],
    },
    'nodes.length < 2 => false': {
      reason: shortcut,
      lines: [
        'if (nodes.length < 2 || nodes.every(isBetter)) return nodes;',
        'if (nodes.length < 2) return nodes;',
        'const one = nodes.length < 2 ? 0 : Math.floor(random() * nodes.length);',
        'const other = nodes.length < 2 ? 0 : (one + 1 + Math.floor(random() * (nodes.length - 1))) % nodes.length;',
      ],
    },
    'most <= least * depthTolerance => false': shortcut,
    '() => 0 => () => undefined': 'the nodes are in order of cost already',
    'last === undefined => false': 'for types alone: without a node of this chain there is no refusal',
    'a.window.oldest < b.window.oldest => a.window.oldest <= b.window.oldest': 'equal edges are compared before',
    '[] => ["Stryker was here"]': { reason: 'the first node replaces it', lines: ['let alike: Candidate<N>[] = [];'] },
    'first === undefined => false': {
      reason: typesAlone,
      lines: ['if (first === undefined || nodes.every((node) => weightOf(node) === weightOf(first))) return nodes;'],
    },
  },
  'src/proxy/http/negotiate.ts': {
    "acceptEncoding === '' => false": shortcut,
    '\'\' => "Stryker was here!"': {
      reason: 'an empty header accepts no coding anyway, and a text that is split has a first part',
      lines: [
        "if (acceptEncoding === undefined || acceptEncoding === '' || acceptEncoding.length > longestEncodings) return none;",
        "const [name = '', ...parameters] = entry.split(';').map((part) => part.trim());",
      ],
    },
    'known !== undefined => false': shortcut,
    'chosen.size >= 256 => true': cacheOfHeaders,
    'chosen.size >= 256 => false': cacheOfHeaders,
    'chosen.size >= 256 => chosen.size > 256': cacheOfHeaders,
    'chosen.size >= 256 => chosen.size < 256': cacheOfHeaders,
    'ifNoneMatch === tag => false': shortcut,
  },
  'src/proxy/http/target.ts': {
    "target.startsWith('/') => false": shortcut,
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: a match has its groups',
      lines: ["const [prefix = '', authority = ''] = /^https?:\\/\\/([^/?#]*)/i.exec(target) ?? [];"],
    },
    '[] => ["Stryker was here"]': 'without a match there is no authority',
  },
  'src/proxy/routes/target.ts': {
    "!path.includes('%') => false": plainPath,
    '\'%\' => ""': plainPath,
    '\'\' => "Stryker was here!"': {
      reason: 'for types alone: a text that is split has a first part, and a match its groups',
      lines: [
        "const path = below.split('?', 1)[0] ?? '';",
        "const path = decoded(target.split(/[?#]/, 1)[0] ?? '');",
        "const path = target.split(/[?#]/, 1)[0] ?? '';",
      ],
    },
  },
  'src/upstream/node/shared-address.ts': {
    '\'several nodes answer at one address, with different ledgers: list each node, or set discover: dns\' => ""':
      textAlone,
    'this.#spread?.deepest => this.#spread.deepest': 'for types alone: only reports show several nodes',
    'last !== info => true': shortcut,
    'info.oldestVersion < spread.deepest.oldestVersion => info.oldestVersion <= spread.deepest.oldestVersion': equal,
    'info.oldestVersion > spread.shallowest.oldestVersion => info.oldestVersion >= spread.shallowest.oldestVersion':
      equal,
  },
  'src/upstream/node/retention-window.ts': {
    'this.#olderSinceMs !== undefined => true': 'for types alone: no time is later than undefined',
    '\'versions\' => ""': 'another unit than blocks counts versions',
    'shown > deepest.oldestVersion => shown >= deepest.oldestVersion': equal,
    'shown > shallowest.oldestVersion => shown >= shallowest.oldestVersion': equal,
    'part < farthestMove => part <= farthestMove': equal,
    'last !== undefined => true': 'for types alone: the sample ahead of it is there',
    'oldest !== last.oldest => true': 'the same difference again',
    'atMs - this.#steppedAtMs >= stepsMs => true': 'all samples have the same largest step',
    'atMs - this.#steppedAtMs >= stepsMs => atMs - this.#steppedAtMs > stepsMs': 'all samples are compared one later',
    'isDue => false': {
      lines: ['if (isDue) this.#steppedAtMs = atMs;'],
      reason: 'all samples have the same largest step',
    },
    'aheadBy(next) > aheadBy(step) => aheadBy(next) >= aheadBy(step)': equal,
    'samples[0]?.atMs => samples[0].atMs': 'for types alone: there is the sample just pushed',
    'first === undefined || last === undefined => false': 'for types alone: there is a sample',
    'first === undefined || last === undefined => first === undefined && last === undefined':
      'for types alone: there is a sample',
    'first === undefined => false': 'for types alone: there is a sample',
    'last === undefined => false': 'for types alone: there is a sample',
  },
};
