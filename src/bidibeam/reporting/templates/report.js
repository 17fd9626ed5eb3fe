for (const browser of document.querySelectorAll(".browser")) {
  const articles = [...browser.querySelectorAll("article")];
  const select = browser.querySelector("select");
  const show = (index) => {
    const chosen = (index + articles.length) % articles.length;
    articles.forEach((article, place) => { article.hidden = place !== chosen; });
    select.selectedIndex = chosen;
  };
  select.addEventListener("change", () => show(select.selectedIndex));
  for (const button of browser.querySelectorAll("button")) {
    button.addEventListener("click", () => show(select.selectedIndex + Number(button.dataset.step)));
  }
  browser.querySelector(".buttons").hidden = false;
  show(0);
}
