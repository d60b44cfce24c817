import type { SearchCriteria } from '@oselya/model';

/** The languages that the mock answers in; texts of several languages get Ukrainian. */
export type AnswerLanguage = 'uk' | 'ru' | 'en';

/** What the mock says, in one language. */
export type Phrases = {
  /** Said once in a conversation. */
  isMock: string;
  help: string;
  nothing: string;
  found: (shown: number, total: string) => string;
  details: string;
  remembered: (fact: string) => string;
  forgotten: (fact: string) => string;
  nothingToForget: string;
  endpoints: string;
  failed: (reason: string) => string;
  rooms: (count: number) => string;
  floor: (floor: string) => string;
};

export const phrases: Record<AnswerLanguage, Phrases> = {
  uk: {
    isMock:
      'Відповідає пробна модель: вона знає лише прості правила. Справжню модель вмикає MODEL_MODE=openai (docs/models.md).',
    help: 'Напишіть, що шукаєте: місто, оренда чи купівля, скільки кімнат і який бюджет. Наприклад: «двокімнатна у Львові до 15000 грн».',
    nothing: 'За цими умовами нічого не знайшлося. Спробуйте інший бюджет чи район.',
    found: (shown, total) => `Знайшлося ${total}, показую ${shown}:`,
    details: 'Ось що відомо про оголошення:',
    remembered: (fact) => `Запамʼятовано: ${fact}.`,
    forgotten: (fact) => `Забуто: ${fact}.`,
    nothingToForget: 'Про це нічого не запамʼятовано.',
    endpoints: 'Ось що є в обліку:',
    failed: (reason) => `Не вдалося: ${reason}.`,
    rooms: (count) => `${count} кімн.`,
    floor: (floor) => `поверх ${floor}`,
  },
  ru: {
    isMock:
      'Отвечает пробная модель: она знает только простые правила. Настоящую модель включает MODEL_MODE=openai (docs/models.md).',
    help: 'Напишите, что ищете: город, аренда или покупка, сколько комнат и какой бюджет. Например: «двухкомнатная во Львове до 15000 грн».',
    nothing: 'По этим условиям ничего не нашлось. Попробуйте другой бюджет или район.',
    found: (shown, total) => `Нашлось ${total}, показываю ${shown}:`,
    details: 'Вот что известно об объявлении:',
    remembered: (fact) => `Запомнено: ${fact}.`,
    forgotten: (fact) => `Забыто: ${fact}.`,
    nothingToForget: 'Об этом ничего не запомнено.',
    endpoints: 'Вот что есть в учёте:',
    failed: (reason) => `Не получилось: ${reason}.`,
    rooms: (count) => `${count} комн.`,
    floor: (floor) => `этаж ${floor}`,
  },
  en: {
    isMock:
      'The mock model answers: it knows simple rules only. MODEL_MODE=openai turns a real model on (docs/models.md).',
    help: 'Say what you look for: the town, to rent or to buy, how many rooms, and your budget. For example: "two rooms in Lviv up to 15000 UAH".',
    nothing: 'Nothing was found under these conditions. Try another budget or district.',
    found: (shown, total) => `${total} found, here are ${shown}:`,
    details: 'This is what is known of the listing:',
    remembered: (fact) => `Remembered: ${fact}.`,
    forgotten: (fact) => `Forgotten: ${fact}.`,
    nothingToForget: 'Nothing of that is remembered.',
    endpoints: 'This is what the inventory has:',
    failed: (reason) => `It failed: ${reason}.`,
    rooms: (count) => `${count} rooms`,
    floor: (floor) => `floor ${floor}`,
  },
};

export function answerLanguage(language: SearchCriteria['language']): AnswerLanguage {
  return language === 'ru' || language === 'en' ? language : 'uk';
}
