/**
 * Loaded ahead of a gateway (`--import`): its wall clock is moved by the ms in the file that LEDGERGATE_TEST_CLOCK names.
 * The file is read at each look at the clock, so that all processes move at once.
 */
import { readFileSync } from 'node:fs';

const file = process.env['LEDGERGATE_TEST_CLOCK'] ?? '';
const realNow = Date.now;

Date.now = () => realNow() + Number(readFileSync(file, 'utf8'));
