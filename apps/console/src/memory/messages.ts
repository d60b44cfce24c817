import type { PartMessages } from '../i18n/part.ts';

const en = {
  title: 'Memory',
  text: 'What the assistant remembers of you. It uses this in every answer; other people do not see it.',
  search: 'Search in facts',
  none: 'Nothing is remembered yet',
  noneHint: 'Tell the assistant what matters to you, or add a fact.',
  noHits: 'No fact has these words',
  add: 'Add a fact',
  category: 'Category',
  categoryExample: 'such as wishes',
  key: 'About',
  keyExample: 'such as city',
  value: 'Fact',
  forget: 'Forget',
  forgotten: 'Forgotten',
  source: 'From a conversation',
  summary: 'Summary',
  updated: (day: string) => `written ${day}`,
};

const uk: typeof en = {
  title: 'Пам’ять',
  text: 'Що асистент пам’ятає про вас. Він враховує це в кожній відповіді; інші люди цього не бачать.',
  search: 'Пошук серед фактів',
  none: 'Поки нічого не запам’ятано',
  noneHint: 'Розкажіть асистентові, що для вас важливо, або додайте факт.',
  noHits: 'Немає фактів із такими словами',
  add: 'Додати факт',
  category: 'Категорія',
  categoryExample: 'наприклад, побажання',
  key: 'Про що',
  keyExample: 'наприклад, місто',
  value: 'Факт',
  forget: 'Забути',
  forgotten: 'Забуто',
  source: 'З розмови',
  summary: 'Підсумок',
  updated: (day) => `записано ${day}`,
};

const ru: typeof en = {
  title: 'Память',
  text: 'Что ассистент помнит о вас. Он учитывает это в каждом ответе; другие люди этого не видят.',
  search: 'Поиск среди фактов',
  none: 'Пока ничего не запомнено',
  noneHint: 'Расскажите ассистенту, что для вас важно, или добавьте факт.',
  noHits: 'Нет фактов с такими словами',
  add: 'Добавить факт',
  category: 'Категория',
  categoryExample: 'например, пожелания',
  key: 'О чём',
  keyExample: 'например, город',
  value: 'Факт',
  forget: 'Забыть',
  forgotten: 'Забыто',
  source: 'Из разговора',
  summary: 'Сводка',
  updated: (day) => `записано ${day}`,
};

/** Texts of the page of the memory. */
export const memoryMessages = { en, uk, ru } satisfies PartMessages<typeof en>;
