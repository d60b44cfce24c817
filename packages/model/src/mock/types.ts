/** The languages a text can be told to be in; `mixed` when none has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

/** What is offered: for good, by the month, or by the night (Contract 4, PayloadSchema). */
export type DealType = 'sale' | 'rent' | 'daily_rent';

/** The kind of property offered. */
export type PropertyType = 'apartment' | 'house' | 'room' | 'land' | 'commercial' | 'garage';
