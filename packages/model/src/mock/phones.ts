const SEPARATORS = String.raw`[\s\-.()]{0,3}`;

/** Ukrainian numbers, with or without the country's code: 0 and nine digits however grouped. */
const NATIONAL = String.raw`(?:\+?3?8${SEPARATORS})?\(?0(?:${SEPARATORS}\d){9}`;
/** Any other country's, told by the plus sign: 8 to 15 digits (ITU-T E.164). */
const INTERNATIONAL = String.raw`\+[1-9](?:${SEPARATORS}\d){7,14}`;

const PHONE = new RegExp(String.raw`(?<![\d+])(?:${NATIONAL}|${INTERNATIONAL})(?!\d)`, 'gu');

/** One written number in international form, or null when it is none. */
export function normalizePhone(written: string): string | null {
  const digits = written.replace(/\D/gu, '');
  if (written.trim().startsWith('+')) {
    return digits.length >= 8 && digits.length <= 15 ? `+${digits}` : null;
  }
  if (/^0\d{9}$/u.test(digits)) return `+38${digits}`;
  if (/^80\d{9}$/u.test(digits)) return `+3${digits}`;
  if (/^380\d{9}$/u.test(digits)) return `+${digits}`;
  return null;
}

/** The phone numbers of a text, in its order, each once. */
export function readPhones(text: string): string[] {
  const found = [...text.matchAll(PHONE)].map(([written]) => normalizePhone(written));
  return [...new Set(found.filter((phone) => phone !== null))];
}

/** The text with a sign in place of each phone number, so that no digit of one is read as a fact. */
export function withoutPhones(text: string): string {
  return text.replace(PHONE, '☎');
}
