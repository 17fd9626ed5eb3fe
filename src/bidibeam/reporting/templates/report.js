for (const browser of document.querySelectorAll(".browser")) {
  const documents = JSON.parse(browser.querySelector("script").textContent);
  const select = browser.querySelector("select");
  const show = (index) => {
    select.selectedIndex = (index + documents.length) % documents.length;
    showExplanation(browser.querySelector(".example"), documents[select.selectedIndex], {
      pair: documents[select.selectedIndex].pair,
    });
  };
  select.addEventListener("change", () => show(select.selectedIndex));
  for (const button of browser.querySelectorAll("button[data-step]")) {
    button.addEventListener("click", () => show(select.selectedIndex + Number(button.dataset.step)));
  }
  browser.querySelector(".buttons").hidden = false;
  show(0);
}
window.addEventListener("resize", showOverflow);
