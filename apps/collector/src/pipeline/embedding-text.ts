import { createHash } from 'node:crypto';
import type { Payload } from '../ingest/schemas.ts';
import type { Facts } from './merge.ts';

/** Models read so many characters at most, of which the first say most. */
const MAX_LENGTH = 8000;

/** The text of a listing that its embedding is made from: what it says, and its main facts in words. */
export function embeddingText(description: Payload['description'], facts: Facts): string {
  const place = [facts.city, facts.district, facts.address].filter((part) => part !== undefined);
  const size = [
    facts.rooms === undefined ? undefined : `${facts.rooms} rooms`,
    facts.area_total === undefined ? undefined : `${facts.area_total} m2`,
  ].filter((part) => part !== undefined);
  const lines = [
    facts.title,
    facts.summary,
    [facts.deal_type, facts.property_type].filter((part) => part !== undefined).join(' '),
    place.join(', '),
    size.join(', '),
    facts.features.join(', '),
    description,
  ];
  return lines
    .filter((line) => line !== undefined && line !== '')
    .join('\n')
    .slice(0, MAX_LENGTH)
    .toWellFormed();
}

/** SHA-256 of an embedding's text, by which it is told that the text has not changed. */
export function embeddingTextHash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
