import { createPlural } from '../i18n/plural.ts';
import type { PartMessages } from '../i18n/part.ts';

const countEn = createPlural('en');
const countUk = createPlural('uk');
const countRu = createPlural('ru');

const en = {
  title: 'Saved searches',
  text: 'New and cheaper listings arrive as messages in the chat.',
  none: 'Nothing is saved yet',
  noneHint: 'Search for something, then save the search.',
  toSearch: 'Go to the search',
  newTitle: 'Save a search',
  address: 'Address of a search',
  addressHelp: 'Paste the address of a page of results, to watch it.',
  use: 'Use',
  noFilters: 'This address has no words and no filters.',
  every: 'Reports',
  frequencies: {
    5: 'every 5 minutes',
    60: 'every hour',
    360: 'every 6 hours',
    1440: 'once a day',
    10080: 'once a week',
  } as Record<number, string>,
  everyMinutes: (count: number) =>
    countEn(count, { one: 'every minute', other: 'every # minutes' }),
  preview: 'What it finds now',
  nothing: 'Nothing is found now. Later listings will be reported.',
  paused: 'Paused',
  pause: 'Pause',
  resume: 'Resume',
  told: (time: string) => `last report ${time}`,
  notTold: 'no report yet',
  open: 'Open the search',
  chat: 'Reports in the chat',
  finds: 'Finds',
  noFinds: 'Nothing has been found since the search was saved.',
  reasons: { new: 'New', cheaper: 'Cheaper' } as Record<string, string>,
  removeQuestion: 'Delete this search?',
  removeText: 'Its finds are deleted too. Its messages in the chat stay.',
};

const uk: typeof en = {
  title: 'Збережені пошуки',
  text: 'Нові та дешевші оголошення приходять повідомленнями в чат.',
  none: 'Поки нічого не збережено',
  noneHint: 'Знайдіть щось, а тоді збережіть пошук.',
  toSearch: 'До пошуку',
  newTitle: 'Зберегти пошук',
  address: 'Адреса пошуку',
  addressHelp: 'Вставте адресу сторінки з результатами, щоб стежити за нею.',
  use: 'Узяти',
  noFilters: 'У цій адресі немає ні слів, ні фільтрів.',
  every: 'Повідомляти',
  frequencies: {
    5: 'кожні 5 хвилин',
    60: 'щогодини',
    360: 'кожні 6 годин',
    1440: 'раз на день',
    10080: 'раз на тиждень',
  },
  everyMinutes: (count) =>
    countUk(count, { one: 'кожну # хвилину', few: 'кожні # хвилини', other: 'кожні # хвилин' }),
  preview: 'Що він знаходить зараз',
  nothing: 'Зараз нічого не знайдено. Про пізніші оголошення прийде повідомлення.',
  paused: 'Призупинено',
  pause: 'Призупинити',
  resume: 'Продовжити',
  told: (time) => `останнє повідомлення ${time}`,
  notTold: 'повідомлень ще не було',
  open: 'Відкрити пошук',
  chat: 'Повідомлення в чаті',
  finds: 'Знахідки',
  noFinds: 'Відколи пошук збережено, нічого не знайдено.',
  reasons: { new: 'Нове', cheaper: 'Дешевше' },
  removeQuestion: 'Видалити цей пошук?',
  removeText: 'Його знахідки теж буде видалено. Повідомлення в чаті залишаться.',
};

const ru: typeof en = {
  title: 'Сохранённые поиски',
  text: 'Новые и подешевевшие объявления приходят сообщениями в чат.',
  none: 'Пока ничего не сохранено',
  noneHint: 'Найдите что-нибудь, а затем сохраните поиск.',
  toSearch: 'К поиску',
  newTitle: 'Сохранить поиск',
  address: 'Адрес поиска',
  addressHelp: 'Вставьте адрес страницы с результатами, чтобы следить за ней.',
  use: 'Взять',
  noFilters: 'В этом адресе нет ни слов, ни фильтров.',
  every: 'Сообщать',
  frequencies: {
    5: 'каждые 5 минут',
    60: 'каждый час',
    360: 'каждые 6 часов',
    1440: 'раз в день',
    10080: 'раз в неделю',
  },
  everyMinutes: (count) =>
    countRu(count, { one: 'каждую # минуту', few: 'каждые # минуты', other: 'каждые # минут' }),
  preview: 'Что он находит сейчас',
  nothing: 'Сейчас ничего не найдено. О более поздних объявлениях придёт сообщение.',
  paused: 'Приостановлен',
  pause: 'Приостановить',
  resume: 'Продолжить',
  told: (time) => `последнее сообщение ${time}`,
  notTold: 'сообщений ещё не было',
  open: 'Открыть поиск',
  chat: 'Сообщения в чате',
  finds: 'Находки',
  noFinds: 'С тех пор как поиск сохранён, ничего не найдено.',
  reasons: { new: 'Новое', cheaper: 'Дешевле' },
  removeQuestion: 'Удалить этот поиск?',
  removeText: 'Его находки тоже будут удалены. Сообщения в чате останутся.',
};

/** Texts of the pages of saved searches. */
export const savedMessages = { en, uk, ru } satisfies PartMessages<typeof en>;
